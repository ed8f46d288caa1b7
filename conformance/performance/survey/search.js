"use strict";
// Shows the rows that hold every word that is typed; the words are kept in the address.
const field = document.getElementById("search");
const rows = [...document.querySelectorAll("tr[data-searched]")];
function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let left = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    left += !row.hidden;
  }
  document.getElementById("found").textContent = words.length ? `${left} found` : "";
  history.replaceState(null, "", words.length ? `#?${encodeURIComponent(field.value)}` : "#");
}
field.closest("p").hidden = false;
field.addEventListener("input", search);
if (location.hash.startsWith("#?")) {
  field.value = decodeURIComponent(location.hash.slice(2));
  search();
}
