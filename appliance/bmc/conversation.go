package bmc

import (
	"time"

	"landfall/store"
)

// Conversation is what was said to a BMC and answered, from login to logout, without secrets.
type Conversation struct {
	ID        string     `json:"id"`
	About     string     `json:"about"` // what it was for: "register", "boot", "poll", …
	Start     time.Time  `json:"start"`
	End       time.Time  `json:"end,omitzero"`
	Outcome   string     `json:"outcome,omitempty"` // the error as a sentence; "" when it went well
	Exchanges []Exchange `json:"exchanges"`
	Left      int        `json:"left_out,omitempty"` // exchanges that are not kept, in the middle
	Repeated  int        `json:"repeated,omitempty"` // how often it ended in the same way before
}

// Exchange is one request and its answer.
type Exchange struct {
	At       time.Time     `json:"at"`
	Took     time.Duration `json:"took_ns"`
	Method   string        `json:"method"`
	Path     string        `json:"path"`
	Headers  []string      `json:"headers,omitempty"` // those that matter, as "Name: value"
	Request  string        `json:"request,omitempty"`
	Status   int           `json:"status,omitempty"` // 0: there was no answer
	Answered []string      `json:"answer_headers,omitempty"`
	Answer   string        `json:"answer,omitempty"`
	Error    string        `json:"error,omitempty"` // why there was no answer
}

// Conversations returns what was said with a server's BMC of late, the oldest first.
func (m *Manager) Conversations(id string) ([]Conversation, error) {
	found := []Conversation{}
	err := m.options.DB.View(func(tx *store.Tx) error {
		if !serverRows.Exists(tx, id) {
			return &NotFoundError{id}
		}
		return conversationRows.Each(tx, id+"/", func(_ string, c *Conversation) error {
			found = append(found, *c)
			return nil
		})
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if poll, ok := m.polls[id]; ok && err == nil {
		found = append(found, poll)
	}
	return found, err
}
