//! The memory of this process.

/// Gives the kernel back what is free. By itself the C library gives back only the end of the heap:
/// one small thing that lives on there holds megabytes, after a hundred connections at once.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(
        unsafe_code,
        reason = "the C library's own functions are unsafe to call"
    )]
    // SAFETY: it takes no pointer and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
