package authority

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// orderLimit limits an order in bytes. Real ones have about 1 KiB.
const orderLimit = 1 << 20

// locating is a transport that adds the URL of the order to the answer of its finalization. Package
// acme waits for the order at this URL, but a CA need not send it there (RFC 8555, section 7.4).
// Without it, no certificate would come from a CA that signs after its answer.
type locating struct {
	base http.RoundTripper

	mu     sync.Mutex
	orders map[string]string // URL of the finalization -> URL of the order
}

// RoundTrip implements http.RoundTripper.
func (l *locating) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.base.RoundTrip(request)
	if err != nil || request.Method != http.MethodPost {
		return response, err
	}
	if order := response.Header.Get("Location"); response.StatusCode == http.StatusCreated && order != "" {
		if err := l.remember(response, order); err != nil {
			return nil, err
		}
		return response, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if order := l.orders[request.URL.String()]; order != "" && response.Header.Get("Location") == "" {
		response.Header.Set("Location", order)
	}
	return response, nil
}

// remember reads the URL of the finalization from a new order. Other new objects have none.
func (l *locating) remember(response *http.Response, order string) error {
	content, err := io.ReadAll(io.LimitReader(response.Body, orderLimit))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("read the answer of the CA: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	var made struct{ Finalize string }
	if json.Unmarshal(content, &made) != nil || made.Finalize == "" {
		return nil // package acme reports malformed answers
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = map[string]string{made.Finalize: order} // names get their certificates one after the other
	return nil
}
