package kube

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// loopback is a transport to a handler of this process, without a port or a certificate.
type loopback struct{ handler http.Handler }

// RoundTrip returns the response when the handler has sent its header.
func (l loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.Clone(ctx)
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &responseWriter{header: http.Header{}, body: bufio.NewWriter(writer), begun: make(chan struct{}),
		gone: make(chan bool)}
	stop := context.AfterFunc(ctx, func() { close(w.gone) })
	go func() {
		var failure error
		defer func() {
			if reason := recover(); reason != nil {
				failure = errors.New("the request was aborted")
			}
			w.WriteHeader(http.StatusOK)
			writer.CloseWithError(errors.Join(w.body.Flush(), failure))
			stop()
		}()
		l.handler.ServeHTTP(w, r)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		err := ctx.Err()
		cancel()
		return nil, errors.Join(err, reader.Close())
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: r.Proto, ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, ContentLength: -1, Request: r, Body: &answerBody{reader, cancel},
	}, nil
}

// responseWriter is the response writer for the handler. The API server requires Flush and
// CloseNotify for watches.
type responseWriter struct {
	header http.Header
	body   *bufio.Writer
	gone   chan bool
	begin  sync.Once
	begun  chan struct{}
	// Written before begun is closed:
	status int
	sent   http.Header
}

func (a *responseWriter) Header() http.Header { return a.header }

func (a *responseWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		return
	}
	a.begin.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	})
}

func (a *responseWriter) Write(text []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(text)
}

func (a *responseWriter) Flush() {
	a.WriteHeader(http.StatusOK)
	if err := a.body.Flush(); err != nil {
		return // the reader was closed; the next write returns the error
	}
}

func (a *responseWriter) CloseNotify() <-chan bool { return a.gone }

// answerBody cancels the request when it is closed.
type answerBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *answerBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
