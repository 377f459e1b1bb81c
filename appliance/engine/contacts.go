package engine

import "time"

// The machines of a fleet share the rows. The methods below are for what only the memory of one of
// them has.

// Contacts returns the times of the last contacts of hosts after a time, by the keys of the hosts.
func (e *Engine) Contacts(after time.Time) map[string]time.Time { return e.presence.PolledAfter(after) }

// NoteContacts notes contacts that hosts have had with another machine.
func (e *Engine) NoteContacts(contacts map[string]time.Time) {
	for key, at := range contacts {
		e.presence.Of(key).Contacted(at)
	}
}

// ForgetHost deletes what memory holds of a host that another machine has deleted.
func (e *Engine) ForgetHost(key string) {
	e.presence.Remove(key)
	e.DropHost(key)
}

// ForgetEvents deletes the index of events in memory after another machine has removed events.
func (e *Engine) ForgetEvents() { e.events.Reset() }
