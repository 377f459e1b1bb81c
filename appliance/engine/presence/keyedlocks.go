package presence

import "sync"

// KeyedLocks is a set of locks by key. The engine locks a host while it handles a reply of the
// host's agent, because an agent sends the replies of parallel steps concurrently.
type KeyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

// Lock acquires the lock of a key and returns the function that releases it.
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
