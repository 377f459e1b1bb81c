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
// of another kind or of a newer version. The caller checks whether the key is trusted.
func ReadCourier(r io.Reader, kind CourierKind) (*CourierFile, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, refuseFile("it was not written by landfall ams export or push")
	}
	text, err := io.ReadAll(io.LimitReader(zip, maxCourier))
	if err != nil {
		return nil, refuseFile("it is damaged or truncated (%v); copy it again", err)
	}
	body := bytes.TrimSuffix(text, []byte("\n"))
	end := bytes.LastIndexByte(body, '\n') + 1
	if end == 0 {
		return nil, refuseFile("it was not written by landfall ams export or push")
	}
	file := &CourierFile{}
	lines := bufio.NewReader(bytes.NewReader(text[:end]))
	if err := readLine(lines, &file.Header); err != nil || file.Header.Format != courierFormat {
		return nil, refuseFile("it was not written by landfall ams export or push")
	}
	switch h := file.Header; {
	case h.Version > courierVersion:
		return nil,
			refuseFile("its version is %d, but this program supports versions up to %d; update this program",
				h.Version, courierVersion)
	case h.Kind != kind:
		return nil,
			refuseFile("it contains %s; expected %s: landfall ams push reads an export, "+
				"landfall ams import reads receipts", h.Kind, kind)
	}
	var trailer courierTrailer
	if err := json.Unmarshal(body[end:], &trailer); err != nil || trailer.SHA256 == "" {
		return nil, refuseFile("its end is missing; copy it again")
	}
	sum := sha256.Sum256(text[:end])
	if hex.EncodeToString(sum[:]) != trailer.SHA256 {
		return nil, refuseFile("its content does not match its digest; copy it again")
	}
	if err := file.Header.Key.Verify(courierPurpose, sum[:], trailer.Signature); err != nil {
		return nil, refuseFile("its signature is not valid; copy it again")
	}
	for {
		var entry CourierEntry
		err := readLine(lines, &entry)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, refuseFile("a line cannot be read (%v)", err)
		}
		file.Entries = append(file.Entries, entry)
	}
	if len(file.Entries) != trailer.Count || trailer.Count != file.Header.Entries {
		return nil, refuseFile("it contains %d clusters instead of %d; copy it again", len(file.Entries),
			file.Header.Entries)
	}
	return file, nil
}

func readLine(lines *bufio.Reader, into any) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}
