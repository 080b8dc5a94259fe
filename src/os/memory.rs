//! The memory of this process.

/// Returns free memory to the kernel. By itself the C library returns only the end of the heap: after a
/// hundred connections at once, a single small allocation there retains megabytes.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(
        unsafe_code,
        reason = "the C library's own functions are unsafe to call"
    )]
    // SAFETY: malloc_trim takes no pointer and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
