"""``tickproof cache``: what the kit keeps from one start to the next, and how to be rid of it."""

from __future__ import annotations

import shutil

import click

from tickproof.conformance.cli.options import Command


@click.command(cls=Command)
@click.option("--clear", is_flag=True, help="Remove all of it; it is made again when needed.")
def cache(clear: bool) -> None:
    """List what is cached for Java and Kafka.

    Launchers for Java, jars of Kafka, and archives of classes.
    """
    from tickproof.conformance.spark_check import caches

    found = False
    for folder in caches.folders():
        if folder.is_symlink() or not folder.is_dir():
            continue
        for path in sorted(folder.iterdir()):
            held = [path] if path.is_symlink() or path.is_file() else [*path.rglob("*")]
            size, found = sum(one.lstat().st_size for one in held), True
            click.echo(f"{size:>13,} bytes  {path}")
        if clear:
            shutil.rmtree(folder)
            click.echo(f"removed {folder}")
    if not found:
        click.echo("nothing is cached")
