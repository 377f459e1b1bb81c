package fleet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"landfall/appliance/fault"
)

// Polls of agents are small, they only read, and they are most of all requests. Those of a follower
// go to the leader through a pipeline: one connection. While a side sends, it collects what becomes
// ready, and sends it in one write. The requests and answers are those of HTTP/1.1. Each request
// has a number, and its answer has the same number, so answers are sent in the order in which they
// are ready, and a slow one holds up no other. When the connection ends, all polls without an
// answer are sent again.

const (
	// pollsPath is the path of the request that becomes a pipeline, and pollsProtocol its protocol.
	pollsPath     = peerPath + "polls"
	pollsProtocol = "landfall-polls"
	headerNumber  = "Landfall-Fleet-Number"
	// pipelineBuffer is the size of a reader's buffer in bytes, and of those that a bundle keeps.
	pipelineBuffer = 64 << 10
	// spareWorkers is the number of goroutines of a pipeline that wait for polls. Their stacks have
	// grown to the size that a poll needs, which takes a tenth of the CPU time of a poll.
	spareWorkers = 64
	// largestPoll limits a request in a pipeline, in bytes.
	largestPoll = 128 << 10
)

// notForwarded are headers about the connection of a client, those by which a proxy describes its
// client (the leader believes only members), and those about the host and the body: over HTTP/2,
// these may be others than those of the request.
var notForwarded = map[string]bool{"Host": true, "Content-Length": true, "Connection": true, "Keep-Alive": true,
	"Proxy-Authorization": true, "Proxy-Connection": true, "Te": true, "Trailer": true, "Forwarded": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, headerNumber: true}

// isPoll reports whether a request asks for the instructions for a host, and nothing else.
func isPoll(r *http.Request) bool {
	connection := r.Header.Get("Connection")
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/instructions") &&
		r.ContentLength == 0 && r.Header.Get("Upgrade") == "" && isOneWord(r.URL.RequestURI()) &&
		(connection == "" || strings.EqualFold(connection, "keep-alive") || strings.EqualFold(connection, "close"))
}

// isOneWord reports whether a text can be a word of the first line of a request. HTTP/2 also allows
// spaces in a query, and a line that the leader can't read would end the pipeline of all polls.
func isOneWord(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

// bundle collects what several goroutines write until the last write has ended.
type bundle struct {
	mu      sync.Mutex
	waiting *bytes.Buffer
	ready   chan struct{} // holds one item while something waits
}

func newBundle() *bundle { return &bundle{waiting: new(bytes.Buffer), ready: make(chan struct{}, 1)} }

func (b *bundle) add(write func(to *bytes.Buffer)) {
	b.mu.Lock()
	write(b.waiting)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// writeTo writes what was added until the context ends.
func (b *bundle) writeTo(ctx context.Context, w io.Writer) error {
	sending := new(bytes.Buffer)
	for {
		select {
		case <-b.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		runtime.Gosched() // others that can run now may add to this bundle
		b.mu.Lock()
		b.waiting, sending = sending, b.waiting
		b.mu.Unlock()
		if _, err := w.Write(sending.Bytes()); err != nil {
			return err
		}
		if sending.Reset(); sending.Cap() > pipelineBuffer {
			sending = new(bytes.Buffer)
		}
	}
}

// pipeline is the follower's side.
type pipeline struct {
	requests *bundle
	ctx      context.Context
	end      context.CancelCauseFunc

	mu       sync.Mutex
	number   uint64
	answers  map[uint64]chan *http.Response
	received uint64 // number of answers
}

func newPipeline(ctx context.Context) *pipeline {
	p := &pipeline{requests: newBundle(), answers: make(map[uint64]chan *http.Response)}
	p.ctx, p.end = context.WithCancelCause(ctx)
	return p
}

// errNoPipeline is the error of polls that need a connection of their own: their headers are too
// large, or the leader has a version without pipelines.
var errNoPipeline = errors.New("the leader takes this poll only on a connection of its own")

// roundTrip sends a poll and waits for its answer.
func (p *pipeline) roundTrip(r *http.Request) (*http.Response, error) {
	answered := make(chan *http.Response, 1)
	p.mu.Lock()
	p.number++
	number := p.number
	p.answers[number] = answered
	p.mu.Unlock()
	defer p.take(number)
	fits := true
	p.requests.add(func(to *bytes.Buffer) {
		before := to.Len()
		fmt.Fprintf(to, "GET %s HTTP/1.1\r\nHost: %s\r\n%s: %d\r\n", r.URL.RequestURI(), r.Host, headerNumber, number)
		_ = r.Header.WriteSubset(to, notForwarded) // a buffer takes everything
		to.WriteString("\r\n")
		if fits = to.Len()-before <= largestPoll; !fits {
			to.Truncate(before)
		}
	})
	if !fits {
		return nil, errNoPipeline
	}
	select {
	case answer := <-answered:
		return answer, nil
	case <-p.ctx.Done():
		return nil, context.Cause(p.ctx)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// take returns the channel of the poll that waits for an answer, once.
func (p *pipeline) take(number uint64) chan *http.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	answered := p.answers[number]
	delete(p.answers, number)
	return answered
}

// deliver passes an answer to the poll that waits for it.
func (p *pipeline) deliver(number uint64, answer *http.Response) {
	answered := p.take(number)
	p.mu.Lock()
	p.received++
	p.mu.Unlock()
	if answered != nil { // otherwise its client has gone
		answered <- answer
	}
}

// errSilent is the end of a pipeline whose connection may be broken.
var errSilent = errors.New("the leader has answered no poll for a long time")

// watch ends a pipeline on which polls wait and no answer has come for a time: the network may have
// lost the connection, and another one may reach the leader.
func (p *pipeline) watch(patience time.Duration) {
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for last, waited := uint64(0), false; ; {
		select {
		case <-ticker.C:
		case <-p.ctx.Done():
			return
		}
		p.mu.Lock()
		received, waits := p.received, len(p.answers) > 0
		p.mu.Unlock()
		if waits && waited && received == last {
			p.end(errSilent)
		}
		last, waited = received, waits
	}
}

// run connects to the leader, and passes requests and answers until the pipeline ends.
func (p *pipeline) run(host string, through http.RoundTripper, patience time.Duration) {
	conn, err := connect(p.ctx, host, through)
	if err != nil {
		p.end(err)
		return
	}
	defer context.AfterFunc(p.ctx, func() { _ = conn.Close() })() // later answers are not needed
	var running sync.WaitGroup
	running.Go(func() { p.end(p.requests.writeTo(p.ctx, conn)) })
	running.Go(func() { p.watch(patience) })
	p.end(p.receive(bufio.NewReaderSize(conn, pipelineBuffer)))
	running.Wait()
	_ = conn.Close() // later answers are not needed
}

// connect opens the connection of a pipeline.
func connect(ctx context.Context, host string, through http.RoundTripper) (io.ReadWriteCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+pollsPath, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", pollsProtocol)
	answer, err := through.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	conn, ok := answer.Body.(io.ReadWriteCloser)
	switch {
	case answer.StatusCode == http.StatusSwitchingProtocols && ok:
		return conn, nil
	case answer.StatusCode == http.StatusNotFound: // an older version of Landfall
		return nil, errors.Join(errNoPipeline, answer.Body.Close())
	}
	return nil, errors.Join(fmt.Errorf("the leader answers %s to a connection for polls", answer.Status),
		answer.Body.Close())
}

// receive passes answers on until the connection ends.
func (p *pipeline) receive(from *bufio.Reader) error {
	for {
		answer, err := http.ReadResponse(from, nil)
		if err != nil {
			return err
		}
		body := make([]byte, max(0, answer.ContentLength))
		if _, err := io.ReadFull(answer.Body, body); err != nil {
			return err
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		number, err := strconv.ParseUint(answer.Header.Get(headerNumber), 10, 64)
		if err != nil {
			return fmt.Errorf("the number of an answer: %w", err)
		}
		answer.Header.Del(headerNumber)
		p.deliver(number, answer)
	}
}

// servePolls answers the polls of a follower until the connection or the leadership ends. handler
// is that of all requests of members.
func (f *Front) servePolls(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	if r.Header.Get("Upgrade") != pollsProtocol {
		f.Refuse(w, r, fault.New(fault.Invalid, "members ask for polls with the protocol %s", pollsProtocol))
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.Refuse(w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // the follower sends again what was not answered
	running.Go(func() {
		defer cancel()
		select {
		case <-f.Ending:
		case <-ctx.Done():
		}
	})
	answers := newBundle()
	answers.add(func(to *bytes.Buffer) {
		fmt.Fprintf(to, "HTTP/1.1 %d %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", http.StatusSwitchingProtocols,
			http.StatusText(http.StatusSwitchingProtocols), pollsProtocol)
	})
	running.Go(func() {
		defer cancel()
		_ = answers.writeTo(ctx, conn) // the follower notices
	})
	polls := make(chan *http.Request)
	spare := make(chan struct{}, spareWorkers)
	work := func(poll *http.Request) { // answers a poll, and those that come later
		answer := newPollAnswer()
		for {
			number := poll.Header.Get(headerNumber) // the handler removes it
			f.answer(answer, poll, handler)
			answers.add(func(to *bytes.Buffer) { answer.writeTo(to, number) })
			answer.reset()
			select {
			case spare <- struct{}{}:
			default:
				return
			}
			select {
			case poll = <-polls:
				<-spare
			case <-ctx.Done():
				return
			}
		}
	}
	limited := &io.LimitedReader{R: buffered}
	for in := bufio.NewReaderSize(limited, pipelineBuffer); ; {
		limited.N = largestPoll
		poll, err := http.ReadRequest(in)
		if err != nil || poll.Body != http.NoBody || !isPoll(poll) || poll.Header.Get(headerClient) == "" {
			return
		}
		poll = poll.WithContext(ctx)
		poll.RemoteAddr, poll.TLS = r.RemoteAddr, r.TLS
		select {
		case polls <- poll:
		default:
			running.Go(func() { work(poll) })
		}
	}
}

// answer handles a poll. The answer must be empty.
func (f *Front) answer(to *pollAnswer, poll *http.Request, handler http.Handler) {
	defer func() {
		if cause := recover(); cause != nil {
			to.reset()
			f.Refuse(to, poll, fmt.Errorf("the handler of a poll ended: %v", cause))
		}
	}()
	handler.ServeHTTP(to, poll)
}

// pollAnswer collects the answer to a poll.
type pollAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newPollAnswer() *pollAnswer { return &pollAnswer{header: make(http.Header)} }

// reset prepares the answer to the next poll.
func (a *pollAnswer) reset() {
	clear(a.header)
	a.status = 0
	if a.body.Reset(); a.body.Cap() > pipelineBuffer {
		a.body = bytes.Buffer{}
	}
}

// Header implements http.ResponseWriter.
func (a *pollAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *pollAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *pollAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	return a.body.Write(p)
}

func (a *pollAnswer) writeTo(to *bytes.Buffer, number string) {
	a.WriteHeader(http.StatusOK)
	fmt.Fprintf(to, "HTTP/1.1 %d %s\r\n%s: %s\r\nContent-Length: %d\r\n", a.status, http.StatusText(a.status),
		headerNumber, number, a.body.Len())
	_ = a.header.WriteSubset(to, notAnswered) // a buffer takes everything
	to.WriteString("\r\n")
	to.Write(a.body.Bytes())
}

// notAnswered are headers that the pipeline itself writes, and those about a connection.
var notAnswered = map[string]bool{"Content-Length": true, "Connection": true, "Transfer-Encoding": true,
	"Keep-Alive": true, "Trailer": true, headerNumber: true}
