"""Engines that speak Kafka: the broker that they are judged on, and the proxy before it."""
