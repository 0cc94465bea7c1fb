//! Write a worker in ten lines: client, loop, durable context.
