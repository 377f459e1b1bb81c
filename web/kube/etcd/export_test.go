package etcd

// Shared is how many objects are remembered for watchers to share.
func (s Storage) Shared() int {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	return len(s.shared.decoded)
}
