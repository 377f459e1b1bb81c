package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"landfall/appliance/fault"
)

// Contacts knows when hosts contacted this member. *engine.Engine implements it.
type Contacts interface {
	// Contacts returns the times of the last contacts after a time, by the keys of the hosts.
	Contacts(after time.Time) map[string]time.Time
}

// contactsParameter is the parameter with a time in RFC 3339.
const contactsParameter = "after"

// contacts answers when hosts contacted this member.
func (p *Peers) contacts(w http.ResponseWriter, r *http.Request) {
	if p.Hosts == nil {
		refuseAsFollower(w, r, p.Refuse)
		return
	}
	after, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get(contactsParameter))
	if err != nil {
		p.Refuse(w, r, fault.New(fault.Invalid, "the parameter %s is no time: %v", contactsParameter, err))
		return
	}
	writeJSON(w, p.Hosts.Contacts(after))
}

// Contacts asks the leader for the times of the last contacts of hosts after a time, by the keys of
// the hosts.
func (c *Client) Contacts(ctx context.Context, leader Peer, after time.Time) (map[string]time.Time, error) {
	query := url.Values{contactsParameter: {after.Format(time.RFC3339Nano)}}
	body, err := c.ask(ctx, asked{method: http.MethodGet, of: leader, at: contactsPath + "?" + query.Encode()})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var contacts map[string]time.Time
	if err := json.NewDecoder(body).Decode(&contacts); err != nil {
		return nil, fmt.Errorf("read the contacts of hosts with the member %s: %w", leader.Name, err)
	}
	return contacts, nil
}
