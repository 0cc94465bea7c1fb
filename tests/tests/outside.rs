//! What is outside and not ours, on its bad days, with the real engine and the real agent worker between: tool servers
//! (B18) and models (B19, B20). Nothing outside makes the engine pay twice, forget, or stop.
