package notice

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"landfall/appliance/access"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
	"landfall/store"
)

// webhook is the record of a webhook by its name. The URL is sealed, too, because URLs of chat
// systems contain a secret.
type webhook struct {
	URL    string    `json:"url"`    // sealed
	Secret string    `json:"secret"` // sealed
	By     string    `json:"by"`
	At     time.Time `json:"at"`

	Delivered time.Time `json:"delivered"`         // of the last delivery
	Problem   string    `json:"problem,omitempty"` // why the last attempt failed; "" if it succeeded
}

// delivery is a notification that a webhook has not received yet. Its key is
// "<webhook>/<id of the notification>".
type delivery struct {
	Body     json.RawMessage `json:"body"`
	Attempts int             `json:"attempts"`
	First    time.Time       `json:"first"` // time of the notification's record
	Next     time.Time       `json:"next"`  // time of the next attempt
}

var (
	webhooks   = store.NewBucket[webhook]("webhooks", 1)
	deliveries = store.NewBucket[delivery]("webhook-deliveries", 1)
)

// Webhook is a webhook without its secrets.
type Webhook struct {
	Name    string    `json:"name"`
	URL     string    `json:"url"` // without path and query, which may be secret
	By      string    `json:"created_by"`
	At      time.Time `json:"created_at"`
	Pending int       `json:"pending"` // notifications that it has not received yet

	Delivered *time.Time `json:"delivered_at,omitempty"` // of the last delivery
	Problem   string     `json:"problem,omitempty"`      // why the last attempt failed
}

// NewWebhook is a request to add a webhook.
type NewWebhook struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"` // key of the signature; absent: the appliance creates one
}

// Added is a webhook that was added.
type Added struct {
	Webhook
	// Secret is the key that the appliance created. It is not shown again.
	Secret string `json:"secret,omitempty"`
}

// limit is the number of webhooks of a site.
const limit = 20

// secretPrefix marks a key in base64, as in the specification https://www.standardwebhooks.com.
const secretPrefix = "whsec_"

// shortestSecret is the number of bytes of the shortest key that is accepted.
const shortestSecret = 16

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Webhooks returns the webhooks in the order of their names.
func (s *Service) Webhooks() ([]Webhook, error) {
	list := []Webhook{}
	err := s.DB.View(func(tx *store.Tx) error {
		return webhooks.Each(tx, "", func(name string, row *webhook) error {
			shown, err := s.shown(tx, name, row)
			list = append(list, shown)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the webhooks: %w", err)
	}
	return list, nil
}

func (s *Service) shown(tx *store.Tx, name string, row *webhook) (Webhook, error) {
	w := Webhook{Name: name, By: row.By, At: row.At, Problem: row.Problem}
	if !row.Delivered.IsZero() {
		w.Delivered = &row.Delivered
	}
	if address, err := s.Secrets.Open(row.URL); err != nil {
		w.Problem = sentence.New(err)
	} else if parsed, err := url.Parse(address); err == nil {
		w.URL = parsed.Scheme + "://" + parsed.Host
		if parsed.Path != "" && parsed.Path != "/" || parsed.RawQuery != "" {
			w.URL += "/…"
		}
	}
	return w, deliveries.Keys(tx, name+"/", func(string) error { w.Pending++; return nil })
}

// Add adds a webhook.
func (s *Service) Add(ctx context.Context, wanted NewWebhook) (*Added, error) {
	wanted.URL, wanted.Secret = strings.TrimSpace(wanted.URL), strings.TrimSpace(wanted.Secret)
	if !validName.MatchString(wanted.Name) {
		return nil, fault.New(fault.Invalid, "%q is not the name of a webhook. Give 1 to 63 lower-case letters, "+
			"digits and hyphens, such as chat.", wanted.Name)
	}
	if err := s.checkURL(wanted.URL); err != nil {
		return nil, err
	}
	added := new(Added)
	if wanted.Secret == "" {
		key := make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
		added.Secret = secretPrefix + base64.StdEncoding.EncodeToString(key)
		wanted.Secret = added.Secret
	}
	key, err := keyOf(wanted.Secret)
	if err != nil || len(key) < shortestSecret {
		return nil, fault.New(fault.Invalid, "The secret of the webhook is shorter than %d bytes, or has the prefix "+
			"%s without base64 after it. Give a longer one, or none: the appliance then creates one.", shortestSecret,
			secretPrefix)
	}
	row := &webhook{By: access.From(ctx).String(), At: s.Clock.Now().UTC()}
	row.URL, err = s.Secrets.Seal(wanted.URL)
	if err == nil {
		row.Secret, err = s.Secrets.Seal(wanted.Secret)
	}
	if err != nil {
		return nil, fmt.Errorf("seal the webhook: %w", err)
	}
	if err := s.DB.Update(ctx, func(tx *store.Tx) error {
		count := 0
		if err := webhooks.Keys(tx, "", func(string) error { count++; return nil }); err != nil {
			return err
		}
		switch {
		case webhooks.Exists(tx, wanted.Name):
			return fault.New(fault.Conflict, "There is a webhook %s. Remove it first, or give another name.",
				wanted.Name)
		case count >= limit:
			return fault.New(fault.Conflict, "The site has %d webhooks, which is the limit. Remove one first.", count)
		}
		if added.Webhook, err = s.shown(tx, wanted.Name, row); err != nil {
			return err
		}
		return webhooks.Put(tx, wanted.Name, row)
	}); err != nil {
		return nil, err
	}
	s.Logger.Info("Webhook added.", "webhook", wanted.Name, "url", added.URL, "by", row.By)
	return added, nil
}

func (s *Service) checkURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" {
		return fault.New(fault.Invalid, "The URL of the webhook must begin with https:// or http:// and name a "+
			"server, such as https://chat.example.com/hooks/1.")
	}
	if parsed.User != nil {
		return fault.New(fault.Invalid, "The URL of the webhook contains a user or password. Remove them: the "+
			"receiver knows the appliance by the signature.")
	}
	if err := s.CheckURL(address); err != nil {
		return &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
	}
	return nil
}

// Remove removes a webhook and the notifications that it has not received.
func (s *Service) Remove(ctx context.Context, name string) error {
	if err := s.DB.Update(ctx, func(tx *store.Tx) error {
		if !webhooks.Exists(tx, name) {
			return noWebhook(name)
		}
		if err := dropDeliveries(tx, name); err != nil {
			return err
		}
		return webhooks.Delete(tx, name)
	}); err != nil {
		return err
	}
	s.Logger.Info("Webhook removed.", "webhook", name, "by", access.From(ctx).String())
	return nil
}

func noWebhook(name string) error {
	return fault.New(fault.NotFound, "There is no webhook %q. landfall settings webhook list shows the webhooks.", name)
}

func dropDeliveries(tx *store.Tx, name string) error {
	var keys []string
	if err := deliveries.Keys(tx, name+"/", func(key string) error {
		keys = append(keys, key)
		return nil
	}); err != nil {
		return err
	}
	for _, key := range keys {
		if err := deliveries.Delete(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// Try sends a test notification to a webhook at once. It does not retry.
func (s *Service) Try(ctx context.Context, name string) error {
	var row *webhook
	err := s.DB.View(func(tx *store.Tx) (err error) {
		row, err = webhooks.Get(tx, name)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return noWebhook(name)
	}
	if err != nil {
		return fmt.Errorf("read the webhook: %w", err)
	}
	now := s.Clock.Now().UTC()
	id := "test-" + strconv.FormatInt(now.UnixMicro(), 16)
	body, err := json.Marshal(&Notification{ID: id, Kind: Test, Time: now, URL: s.URL,
		Message: "This is a test of the webhook " + name + "."})
	if err != nil {
		return err
	}
	if err := s.send(ctx, row, id, body); err != nil {
		return &fault.Error{Kind: fault.Unavailable, Err: err,
			Reason: "The webhook " + name + " did not take the test notification: " + sentence.Ending(err)}
	}
	return nil
}

// timeout limits a request to a webhook.
const timeout = 15 * time.Second

// refusal is the answer of a webhook that does not take a notification.
type refusal struct{ status int }

func (r *refusal) Error() string {
	if r.status >= 300 && r.status < 400 {
		return fmt.Sprintf("the receiver answered with a redirect (status %d); give the URL to which it leads",
			r.status)
	}
	return fmt.Sprintf("the receiver answered with status %d", r.status)
}

// send sends a notification. The headers are those of https://www.standardwebhooks.com. The error
// does not contain the URL.
func (s *Service) send(ctx context.Context, row *webhook, id string, body []byte) error {
	address, err := s.Secrets.Open(row.URL)
	if err != nil {
		return err
	}
	secret, err := s.Secrets.Open(row.Secret)
	if err != nil {
		return err
	}
	key, err := keyOf(secret)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, timeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the webhook is invalid")
	}
	moment := strconv.FormatInt(s.Clock.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "landfall")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", moment)
	request.Header.Set("Webhook-Signature", "v1,"+Signature(key, id, moment, body))
	client := http.Client{Transport: s.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the receiver did not answer within %s", cmp.Or(s.Timeout, timeout))
		}
		return err
	}
	_, _ = io.CopyN(io.Discard, response.Body, 1<<16) // so that the connection can be used again
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return &refusal{response.StatusCode}
	}
	return nil
}

// keyOf returns the key of signatures.
func keyOf(secret string) ([]byte, error) {
	if encoded, ok := strings.CutPrefix(secret, secretPrefix); ok {
		return base64.StdEncoding.DecodeString(encoded)
	}
	return []byte(secret), nil
}

// Signature returns the HMAC-SHA-256 of a request to a webhook, in base64.
func Signature(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
