"""Engines that speak Kafka: the broker that they are judged on."""
