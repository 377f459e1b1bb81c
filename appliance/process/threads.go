package process

import "runtime"

// spareThreads is the number of threads that run Go code on top of the number of processors. A
// thread that waits for the disk in a system call keeps its place until the scheduler notices,
// after 20 µs to 10 ms, and a busy appliance waits for the disk most of the time. On two
// processors, other goroutines ran at half the speed meanwhile. More than two spare threads bring
// no gain.
const spareThreads = 2

// AddThreads lets spareThreads more threads run Go code in this process until undo is called. Do
// not call it if the environment sets GOMAXPROCS.
func AddThreads() (undo func()) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + spareThreads)
	return func() { runtime.GOMAXPROCS(before) }
}
