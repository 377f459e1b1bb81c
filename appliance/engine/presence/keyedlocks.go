package presence

import "sync"

// KeyedLocks admits one goroutine at a time for a key. An agent sends the replies of parallel steps
// at once; the engine handles the replies of one host one after the other.
type KeyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

// Lock waits for the key and returns the function that releases it.
func (k *KeyedLocks) Lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[string]*keyedLock)
	}
	lock := k.held[key]
	if lock == nil {
		lock = &keyedLock{}
		k.held[key] = lock
	}
	lock.users++
	k.mu.Unlock()
	lock.Lock()
	return func() {
		lock.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(k.held, key)
		}
	}
}
