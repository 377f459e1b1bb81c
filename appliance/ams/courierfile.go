package ams

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/archive"
	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
)

// A courier file consists of gzip-compressed lines of JSON: a header, a line for each cluster, and
// a trailer. The trailer contains the number of clusters, the SHA-256 of all lines before it and a
// signature of that digest. The file contains no token, no pull secret and no data of hosts.

const (
	courierFormat  = "landfall.ams.courier"
	courierVersion = 1
	courierPurpose = sitekey.Purpose("landfall ams courier")
	maxCourier     = 1 << 30 // bytes, uncompressed
)

// Limits of a courier file. 10,000 clusters have some 2 MiB.
const (
	// MaxCourierBytes is the largest size of a courier file.
	MaxCourierBytes = 32 << 20
	maxCourierLine  = 4 << 20 // bytes
	maxCourierLines = 1 << 20
	courierTime     = time.Minute
)

// CourierKind is the kind of a courier file.
type CourierKind string

// The kinds of courier files.
const (
	Export   CourierKind = "export"   // from a site: the queued clusters
	Receipts CourierKind = "receipts" // back to the site: the results
)

// CourierHeader is the first line of a courier file.
type CourierHeader struct {
	Format         string         `json:"format"`
	Version        int            `json:"version"`
	Kind           CourierKind    `json:"kind"`
	Export         string         `json:"export_id"`
	CreatedAt      time.Time      `json:"created_at"`
	Site           string         `json:"site"` // fingerprint of the exporting site's key
	APIURL         string         `json:"api_url"`
	OrganizationID string         `json:"organization_id,omitempty"`
	Account        string         `json:"account_username,omitempty"` // account that owns new subscriptions
	FinalStatus    string         `json:"final_status,omitempty"`
	Key            sitekey.Public `json:"key"` // key of the trailer's signature
	Entries        int            `json:"entries"`
}

// CourierEntry is a cluster in a courier file. An export contains its desired and recorded state;
// receipts contain the new recorded state.
type CourierEntry struct {
	ClusterID string          `json:"cluster_id"`
	Desired   outbox.Desired  `json:"desired"`
	Recorded  outbox.Recorded `json:"remembered"`
	// for receipts: sent, conflict, blocked, dead, deleted, left, nothing, later
	Outcome string `json:"outcome,omitempty"`
	Problem string `json:"problem,omitempty"`
}

type courierTrailer struct {
	Count     int    `json:"count"`
	SHA256    string `json:"sha256"`
	Signature []byte `json:"signature"`
}

// CourierFile is a complete, verified courier file.
type CourierFile struct {
	Header  CourierHeader
	Entries []CourierEntry
}

// WriteCourier writes a courier file and signs it with the key.
func WriteCourier(w io.Writer, key *sitekey.Key, file CourierFile) error {
	file.Header.Format, file.Header.Version, file.Header.Key, file.Header.Entries = courierFormat, courierVersion,
		key.Public(), len(file.Entries)
	digest := sha256.New()
	zip := gzip.NewWriter(w)
	encoder := json.NewEncoder(io.MultiWriter(zip, digest))
	if err := encoder.Encode(file.Header); err != nil {
		return fmt.Errorf("write the courier file: %w", err)
	}
	for i := range file.Entries {
		if err := encoder.Encode(&file.Entries[i]); err != nil {
			return fmt.Errorf("write the courier file: %w", err)
		}
	}
	sum := digest.Sum(nil)
	signature, err := key.Sign(courierPurpose, sum)
	if err != nil {
		return err
	}
	trailer := courierTrailer{len(file.Entries), hex.EncodeToString(sum), signature}
	if err := errors.Join(json.NewEncoder(zip).Encode(trailer), zip.Close()); err != nil {
		return fmt.Errorf("write the courier file: %w", err)
	}
	return nil
}

// ErrCourier is the class of errors about a rejected courier file.
var ErrCourier = fault.Sentinel(fault.Invalid, "the courier file is rejected")

func refuseFile(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCourier}, args...)...)
}

// ReadCourier reads a courier file of the given kind. It rejects a file that is truncated, altered,
// of another kind or of a newer version. The file is first read as a stream that only verifies its
// signature. Then accept decides about the header, and in particular whether the key is trusted;
// nil accepts all. Only then the clusters are read.
func ReadCourier(r io.Reader, kind CourierKind, accept func(CourierHeader) error) (*CourierFile, error) {
	packed, err := io.ReadAll(io.LimitReader(r, MaxCourierBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the courier file: %w", err)
	case len(packed) > MaxCourierBytes:
		return nil, refuseFile("it has more than %d MiB", MaxCourierBytes>>20)
	}
	file := &CourierFile{}
	if err := verifyCourier(packed, kind, &file.Header); err != nil {
		return nil, err
	}
	if accept != nil {
		if err := accept(file.Header); err != nil {
			return nil, err
		}
	}
	lines, err := openCourier(packed)
	if err != nil {
		return nil, err
	}
	if _, err := lines.next(); err != nil { // the header
		return nil, err
	}
	for range file.Header.Entries {
		line, err := lines.next()
		if err != nil {
			return nil, err
		}
		var entry CourierEntry
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, refuseFile("a line cannot be read (%v)", err)
		}
		file.Entries = append(file.Entries, entry)
	}
	return file, nil
}

// verifyCourier reads a file as a stream and verifies its digest and its signature. It holds one
// line at a time.
func verifyCourier(packed []byte, kind CourierKind, header *CourierHeader) error {
	lines, err := openCourier(packed)
	if err != nil {
		return err
	}
	first, err := lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := json.Unmarshal(first, header); err != nil || header.Format != courierFormat {
		return refuseFile("it was not written by landfall ams export or push")
	}
	switch {
	case header.Version > courierVersion:
		return refuseFile("its version is %d, but this program supports versions up to %d; update this program",
			header.Version, courierVersion)
	case header.Kind != kind:
		return refuseFile("it contains %s; expected %s: landfall ams push reads an export, "+
			"landfall ams import reads receipts", header.Kind, kind)
	case kind == Export && header.Site != header.Key.Fingerprint():
		return refuseFile("it names the site %s, but the key %s signed it", header.Site, header.Key.Fingerprint())
	}
	digest, count := sha256.New(), 0
	last := append([]byte(nil), first...)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		digest.Write(last)
		count++
		last = append(last[:0], line...)
	}
	var trailer courierTrailer
	if err := json.Unmarshal(last, &trailer); err != nil || trailer.SHA256 == "" || count == 0 {
		return refuseFile("its end is missing; copy it again")
	}
	sum := digest.Sum(nil)
	if hex.EncodeToString(sum) != trailer.SHA256 {
		return refuseFile("its content does not match its digest; copy it again")
	}
	if err := header.Key.Verify(courierPurpose, sum, trailer.Signature); err != nil {
		return refuseFile("its signature is not valid; copy it again")
	}
	if entries := count - 1; entries != trailer.Count || trailer.Count != header.Entries {
		return refuseFile("it contains %d clusters instead of %d; copy it again", entries, header.Entries)
	}
	return nil
}

// courierLines reads the lines of a courier file within limits.
type courierLines struct {
	in    *bufio.Reader
	guard *archive.Guard
	line  []byte
}

func openCourier(packed []byte) (*courierLines, error) {
	guard := archive.NewGuard(archive.Limits{Bytes: maxCourier, Entries: maxCourierLines, Time: courierTime})
	zip, err := gzip.NewReader(guard.Packed(bytes.NewReader(packed)))
	if err != nil {
		return nil, refuseFile("it was not written by landfall ams export or push")
	}
	return &courierLines{in: bufio.NewReader(guard.Unpacked(zip)), guard: guard}, nil
}

// next returns the next line with its end, or io.EOF. The line is valid until the next call.
func (l *courierLines) next() ([]byte, error) {
	if err := l.guard.Entry(); err != nil {
		return nil, refuseFile("it %v", err)
	}
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if l.line = append(l.line, part...); len(l.line) > maxCourierLine {
			return nil, refuseFile("it has a line of more than %d MiB", maxCourierLine>>20)
		}
		switch over, isLimit := errors.AsType[*archive.LimitError](err); {
		case err == nil, errors.Is(err, io.EOF) && len(l.line) > 0:
			return l.line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case isLimit:
			return nil, refuseFile("it %v", over)
		default:
			return nil, refuseFile("it is damaged or truncated (%v); copy it again", err)
		}
	}
}
