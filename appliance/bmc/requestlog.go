package bmc

import (
	"time"

	"landfall/store"
)

// RequestLog contains the exchanges of one session with a BMC, from login to logout, without
// secrets.
type RequestLog struct {
	ID        string     `json:"id"`
	Job       string     `json:"about"` // the job: "register", "boot", "poll", …
	Start     time.Time  `json:"start"`
	End       time.Time  `json:"end,omitzero"`
	Error     string     `json:"outcome,omitempty"` // the error as a sentence; "" after success
	Exchanges []Exchange `json:"exchanges"`
	// Stranger is set if the server did not accept the credentials or is no BMC. Only
	// administrators see its answers, because they may be those of any server.
	Stranger bool `json:"stranger,omitempty"`
	// number of exchanges that were dropped from the middle
	Omitted  int `json:"left_out,omitempty"`
	Repeated int `json:"repeated,omitempty"` // number of earlier sessions with the same error
}

// Exchange is a request with its response.
type Exchange struct {
	At              time.Time     `json:"at"`
	Duration        time.Duration `json:"took_ns"`
	Method          string        `json:"method"`
	Path            string        `json:"path"`
	RequestHeaders  []string      `json:"headers,omitempty"` // selected headers as "Name: value"
	Request         string        `json:"request,omitempty"`
	Status          int           `json:"status,omitempty"` // 0 if there was no response
	ResponseHeaders []string      `json:"answer_headers,omitempty"`
	Response        string        `json:"answer,omitempty"`
	Error           string        `json:"error,omitempty"` // set if there was no response
}

// WithoutAnswers returns the log without the contents of the answers.
func (l RequestLog) WithoutAnswers() RequestLog {
	exchanges := make([]Exchange, len(l.Exchanges))
	for i, exchange := range l.Exchanges {
		exchange.ResponseHeaders = nil
		if exchange.Response != "" {
			exchange.Response = "(shown to administrators only)"
		}
		exchanges[i] = exchange
	}
	l.Exchanges = exchanges
	return l
}

// RequestLogs returns the latest request logs of a server, the oldest first.
func (m *Manager) RequestLogs(id string) ([]RequestLog, error) {
	found := []RequestLog{}
	err := m.options.DB.View(func(tx *store.Tx) error {
		if !serverRows.Exists(tx, id) {
			return &NotFoundError{id}
		}
		return requestLogRows.Each(tx, id+"/", func(_ string, c *RequestLog) error {
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
