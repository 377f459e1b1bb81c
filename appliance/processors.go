package appliance

import "runtime"

// spareThreads is how many threads run Go code beyond those that the machine can run at once. One
// that waits for the disk in a system call keeps its place until the scheduler notices, after 20 µs
// to 10 ms, and an appliance that is busy waits for the disk most of the time: on two cores, the
// work of others went on at half the speed meanwhile. More than two bring nothing.
const spareThreads = 2

// SpareThreads has that many threads more run Go code in this process, until it is undone. It is
// not to be called where a person has set GOMAXPROCS.
func SpareThreads() (undo func()) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + spareThreads)
	return func() { runtime.GOMAXPROCS(before) }
}
