package journal

import (
	"strings"
	"time"

	"landfall/store"
)

// History returns the settings with which a store keeps the changes of clusters, infra-envs and
// hosts. The limits are in bytes: each for the history of one object, all for the whole history.
func History(each, all int64) store.History {
	return store.History{Owner: Owner, OwnerBytes: each, Bytes: all}
}

// Owner returns the object whose history contains the changes of a key: the ID of a cluster or an
// infra-env, or "<infra-env ID>/<host ID>" for a host. For the event of a host, it returns only the
// host's ID. It returns "" for a key without history.
func Owner(key string) string {
	kind, rest, _ := strings.Cut(key[1:], "/")
	switch kind {
	case "clusters", "infra-envs", "subscriptions":
		return rest
	case "hosts":
		return rest
	case "files":
		id, _, _ := strings.Cut(rest, "/")
		return id
	case "reports":
		return rest[:max(strings.LastIndexByte(rest, '/'), 0)]
	case "validations":
		_, subject, _ := strings.Cut(rest, "/")
		return subject
	case "events":
		return rest[strings.LastIndexByte(rest, '/')+1:] // the most specific object of the event
	}
	return ""
}

// Note annotates one committed change in the store with its time and cause.
type Note struct {
	At time.Time `json:"at"`
	// Operation is the id of the API operation, or the name of the appliance's own activity.
	Operation string     `json:"do,omitempty"`
	Request   string     `json:"req,omitempty"`  // id of the HTTP request
	Host      string     `json:"host,omitempty"` // id of the host that the change is about
	Reply     *NoteReply `json:"reply,omitempty"`
}

// NoteReply is an agent's reply to a step, without the reported facts, which are in the changed
// rows.
type NoteReply struct {
	Type     string `json:"type"`
	ID       string `json:"id,omitempty"`
	ExitCode int64  `json:"exit,omitempty"`
	Bytes    int    `json:"bytes"`            // length of the whole output
	Output   string `json:"output,omitempty"` // end of the output, if no row contains it
	Error    string `json:"error,omitempty"`  // end of the error text
}
