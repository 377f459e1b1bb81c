package etcd

// Shared returns the number of objects that watchers share.
func (s Storage) Shared() int {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	return len(s.shared.decoded)
}
