//! How much room there is: PIDs, memory, space (design D17).
