// Package traffic counts the bytes that the appliance's registry sends to its clients.
package traffic

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Client is what a client was sent.
type Client struct {
	Address string `json:"address"`
	// Host is the name of the host with this address, or "".
	Host string `json:"host,omitempty"`
	// Pulls are the answers that are being sent to it now.
	Pulls int       `json:"pulls"`
	Bytes int64     `json:"bytes"`            // since the start of the appliance
	Rate  int64     `json:"bytes_per_second"` // in the last ten seconds
	Last  time.Time `json:"last"`             // when bytes were sent to it last
}

const (
	// maxClients limits the clients. A further client replaces one without a running pull: the one
	// to which bytes were sent least recently.
	maxClients = 256
	// window is the time over which a rate is measured, and slots are its parts.
	window = 10 * time.Second
	slots  = 10
)

// Traffic counts the bytes of clients. Its methods may be called concurrently.
type Traffic struct {
	clock clockwork.Clock

	mu      sync.Mutex
	clients map[string]*client
	total   int64
}

type client struct {
	pulls int
	bytes int64
	last  time.Time
	sent  [slots]int64 // in each part of the window
	slot  int64        // number of the newest part since the epoch
}

// New returns counters at zero.
func New(clock clockwork.Clock) *Traffic {
	return &Traffic{clock: clock, clients: map[string]*client{}}
}

// Pull counts the bytes of one answer.
type Pull struct {
	traffic *Traffic
	client  *client
}

// Begin counts an answer to a client. The caller calls End.
func (t *Traffic) Begin(address string) *Pull {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[address]
	if c == nil {
		t.makeRoom()
		c = &client{last: now}
		t.clients[address] = c
	}
	c.pulls++
	return &Pull{t, c}
}

// makeRoom forgets a client if there are too many. If all have pulls, there is one more.
func (t *Traffic) makeRoom() {
	if len(t.clients) < maxClients {
		return
	}
	oldest := ""
	for address, c := range t.clients {
		if c.pulls == 0 && (oldest == "" || c.last.Before(t.clients[oldest].last)) {
			oldest = address
		}
	}
	delete(t.clients, oldest)
}

// Add counts bytes that were sent.
func (p *Pull) Add(n int) {
	now := p.traffic.clock.Now()
	p.traffic.mu.Lock()
	defer p.traffic.mu.Unlock()
	p.client.advance(now)
	p.client.sent[p.client.slot%slots] += int64(n)
	p.client.bytes += int64(n)
	p.client.last = now
	p.traffic.total += int64(n)
}

// End ends the answer.
func (p *Pull) End() {
	p.traffic.mu.Lock()
	defer p.traffic.mu.Unlock()
	p.client.pulls--
}

// advance empties the parts of the window that have passed.
func (c *client) advance(now time.Time) {
	slot := now.UnixNano() / int64(window/slots)
	for i := max(c.slot+1, slot-slots+1); i <= slot; i++ {
		c.sent[i%slots] = 0
	}
	c.slot = max(c.slot, slot)
}

// Clients returns the clients, those with the highest rates first.
func (t *Traffic) Clients() []Client {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Client, 0, len(t.clients))
	for address, c := range t.clients {
		c.advance(now)
		var sent int64
		for _, n := range c.sent {
			sent += n
		}
		list = append(list, Client{Address: address, Pulls: c.pulls, Bytes: c.bytes,
			Rate: sent / int64(window/time.Second), Last: c.last.UTC()})
	}
	slices.SortFunc(list, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Address, b.Address))
	})
	return list
}

// Total returns the bytes that all clients were sent, also those that are forgotten.
func (t *Traffic) Total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}
