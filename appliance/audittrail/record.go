package audittrail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"landfall/appliance/access"
	"landfall/appliance/sitekey"
)

// Kind is the kind of a record.
type Kind string

// Kinds of records.
const (
	// Begin is written before an operation that changes something or reads a secret.
	Begin Kind = "begin"
	// End is written after such an operation, with its status.
	End Kind = "end"
	// Event is a single fact, such as a login.
	Event Kind = "event"
	// Refused is a request that the caller was not permitted to make.
	Refused Kind = "refused"
	// Opened is the first record of each start of the appliance, Closed the last.
	Opened Kind = "opened"
	Closed Kind = "closed"
	// Continued is the first record of a further file of the same start.
	Continued Kind = "continued"
	// Removed says which records were removed because of the limit of space.
	Removed Kind = "removed"
	// Shortened says that newer records than those in the files had been written.
	Shortened Kind = "shortened"
)

// Entry is what a caller records. It must not contain secrets: no queries, bodies, tokens.
type Entry struct {
	Operation string            `json:"operation,omitempty"` // the operation's ID
	Method    string            `json:"method,omitempty"`
	Path      string            `json:"path,omitempty"` // without the query
	Objects   map[string]string `json:"objects,omitempty"`
	Request   string            `json:"request,omitempty"` // the request's ID
	// Secret marks the reading of a secret.
	Secret bool `json:"secret,omitempty"`
	// Status is the HTTP status of an event or a refused request.
	Status int    `json:"status,omitempty"`
	Text   string `json:"text,omitempty"` // one sentence about an event
}

// Actor is who did what a record describes.
type Actor struct {
	Kind     access.Kind `json:"kind,omitempty"`
	Name     string      `json:"name,omitempty"`
	Role     string      `json:"role,omitempty"`
	InfraEnv string      `json:"infra_env,omitempty"`
	Cluster  string      `json:"cluster,omitempty"`
	Session  string      `json:"session,omitempty"` // the session's ID
	Token    string      `json:"token,omitempty"`   // the token's ID
	// Certificate is the serial number of the client certificate.
	Certificate string `json:"certificate,omitempty"`
	Address     string `json:"address,omitempty"`
}

// Record is one line of the trail.
type Record struct {
	Sequence uint64    `json:"seq"`
	Previous string    `json:"prev"` // SHA-256 of the previous line, in hexadecimal
	Time     time.Time `json:"time"`
	Kind     Kind      `json:"kind"`
	// Began is the sequence number of the record Begin that an End belongs to.
	Began uint64 `json:"began,omitempty"`
	Actor Actor  `json:"actor,omitzero"`
	Entry
	// Repeated is how many further requests of the same kind a record stands for.
	Repeated int `json:"repeated,omitempty"`
	// Through and Hash name the last removed record, or the newest record that is missing.
	Through uint64 `json:"through,omitempty"`
	Hash    string `json:"hash,omitempty"`
	// Key is the public key with which the following records are signed.
	Key *sitekey.Public `json:"key,omitempty"`
}

// The purposes of the trail's signatures.
const (
	recordPurpose sitekey.Purpose = "landfall audit record 1"
	headPurpose   sitekey.Purpose = "landfall audit head 1"
)

// signatureMark begins the signature, which is the last member of a signed line. The mark does not
// occur elsewhere in a line, because quotes within JSON texts are escaped.
const signatureMark = `,"sig":"`

// signatureLength is the length of the mark, the signature in base64, the quote and the brace.
var signatureLength = len(signatureMark) + base64.StdEncoding.EncodedLen(64) + len(`"}`)

// noHash is the previous hash of the first record.
var noHash = strings.Repeat("0", hex.EncodedLen(sha256.Size))

func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// encode returns the line of a record, without the line's end.
func encode(record *Record) ([]byte, error) {
	line, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode an audit record: %w", err)
	}
	return line, nil
}

// sign returns a JSON object with the signature of its bytes as a further member.
func sign(key *sitekey.Key, purpose sitekey.Purpose, line []byte) ([]byte, error) {
	signature, err := key.Sign(purpose, line)
	if err != nil {
		return nil, err
	}
	line = append(line[:len(line)-1:len(line)-1], signatureMark...)
	line = base64.StdEncoding.AppendEncode(line, signature)
	return append(line, `"}`...), nil
}

// unsign splits a signed line into the bytes that were signed and the signature.
func unsign(line []byte) (signed, signature []byte, ok bool) {
	at := len(line) - signatureLength
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(signatureMark)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return nil, nil, false
	}
	encoded := line[at+len(signatureMark) : len(line)-len(`"}`)]
	signature, err := base64.StdEncoding.Strict().AppendDecode(nil, encoded)
	if err != nil {
		return nil, nil, false
	}
	return append(line[:at:at], '}'), signature, true
}

// Limits of the texts in a record, in bytes. Clients choose some of them.
const (
	maxText    = 300
	maxPath    = 1000
	maxObjects = 16
)

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// clipped returns the entry with limited texts.
func (e Entry) clipped() Entry {
	e.Operation, e.Method, e.Request = clip(e.Operation, maxText), clip(e.Method, maxText), clip(e.Request, maxText)
	path, _, _ := strings.Cut(e.Path, "?")
	e.Path, e.Text = clip(path, maxPath), clip(e.Text, maxPath)
	objects := make(map[string]string, len(e.Objects))
	for name, id := range e.Objects {
		if len(objects) < maxObjects && id != "" {
			objects[clip(name, maxText)] = clip(id, maxText)
		}
	}
	e.Objects = objects
	return e
}

// with returns the entry with further objects.
func (e Entry) with(objects map[string]string) Entry {
	if len(objects) == 0 {
		return e
	}
	objects = maps.Clone(objects)
	maps.Copy(objects, e.Objects)
	e.Objects = objects
	return e.clipped()
}

// actorOf returns the identity of a context as an Actor.
func actorOf(ctx context.Context) Actor {
	identity := access.From(ctx)
	return Actor{
		Kind: identity.Kind, Name: clip(identity.Name, maxText), Role: identity.Role.String(),
		InfraEnv: clip(identity.InfraEnv, maxText), Cluster: clip(identity.Cluster, maxText),
		Session: identity.Session, Token: identity.Token, Certificate: identity.Certificate,
		Address: clip(identity.Address, maxText),
	}
}
