//! The test kubelet for manual use: `test-kubelet ROOT [1.24|1.35|1.36]`, JSON lines on stdout.

fn main() {
    bed::kubelet::kubelet_main();
}
