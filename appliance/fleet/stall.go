package fleet

import (
	"io"
	"net/http"
	"time"
)

const (
	// stallLimit is how long a member waits for the next byte of another one. The other one, or its
	// disk, hangs then, although its connection is open.
	stallLimit = 30 * time.Second
	// sendLimit is the time in which another member must take a part of an answer: sendPart bytes.
	// It may write them to its disk meanwhile.
	sendLimit = time.Minute
	sendPart  = 64 << 10
)

// timeout is an error that may be that of a member that hangs. Those of the network implement it.
type timeout interface {
	error
	Timeout() bool
}

// outgoing is an answer that another member must take.
type outgoing struct {
	http.ResponseWriter
	connection *http.ResponseController
	limit      time.Duration // for each part
}

func newOutgoing(w http.ResponseWriter) *outgoing {
	return &outgoing{w, http.NewResponseController(w), sendLimit}
}

// Unwrap lets [http.ResponseController] find the methods of the connection.
func (o *outgoing) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// Write implements io.Writer. The last deadline also holds for what net/http sends when the handler
// has ended.
func (o *outgoing) Write(p []byte) (n int, err error) {
	for {
		if err := o.connection.SetWriteDeadline(time.Now().Add(o.limit)); err != nil {
			return n, err
		}
		k, err := o.ResponseWriter.Write(p[n:min(len(p), n+sendPart)])
		n += k
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// taken is the content of a request of another member, which must send it.
type taken struct {
	io.ReadCloser
	connection *http.ResponseController
	limit      time.Duration // for each read
}

func newTaken(w http.ResponseWriter, r *http.Request) *taken {
	return &taken{r.Body, http.NewResponseController(w), stallLimit}
}

// Read implements io.Reader.
func (t *taken) Read(p []byte) (int, error) {
	if err := t.connection.SetReadDeadline(time.Now().Add(t.limit)); err != nil {
		return 0, err
	}
	return t.ReadCloser.Read(p)
}

// end removes the deadline, for the next request on the connection.
func (t *taken) end() { _ = t.connection.SetReadDeadline(time.Time{}) } // it fails if the member has gone
