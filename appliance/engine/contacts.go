package engine

// ForgetHost deletes what memory holds of a deleted host. The engine does so itself for its own
// changes.
func (e *Engine) ForgetHost(key string) {
	e.presence.Remove(key)
	e.DropHost(key)
}

// ForgetEvents deletes the index of events in memory after another machine has removed events.
func (e *Engine) ForgetEvents() { e.events.Reset() }
