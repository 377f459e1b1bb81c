package process

import "runtime"

// spareThreads is the number of threads that run Go code in addition to the number of processors. A
// thread that waits for the disk in a system call counts as running until the scheduler notices,
// after 20 µs to 10 ms. A busy appliance waits for the disk most of the time. On two processors,
// other goroutines then ran at half the speed. More than two spare threads have no effect.
const spareThreads = 2

// AddThreads increases GOMAXPROCS by spareThreads until undo is called. Do not call it if the
// environment sets GOMAXPROCS.
func AddThreads() (undo func()) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + spareThreads)
	return func() { runtime.GOMAXPROCS(before) }
}
