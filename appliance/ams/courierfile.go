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

// A courier file consists of gzip-compressed lines of JSON. The first line is the header. Then
// comes one line for each cluster. The last line is the trailer with the number of these lines, the
// SHA-256 of all lines before it and a signature of that digest. The file holds no token, no pull
// secret and no data of hosts.

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
	Export   CourierKind = "export"   // from a site: the waiting clusters
	Receipts CourierKind = "receipts" // back to the site: the outcomes
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

// CourierEntry is a cluster in a courier file: its desired and recorded state at the export, and
// its recorded state in the receipts.
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

// ErrCourier is the class of errors for a rejected courier file. Its text is a sentence.
var ErrCourier = fault.Sentinel(fault.Invalid, "the courier file is rejected")

func refuseFile(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCourier}, args...)...)
}

// ReadCourier reads a courier file of the given kind. It rejects a file that is cut off, altered,
// of another kind or of a newer version. The caller decides whether the key is trusted.
func ReadCourier(r io.Reader, kind CourierKind) (*CourierFile, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, refuseFile("it was not written by landfall ams export or push")
	}
	text, err := io.ReadAll(io.LimitReader(zip, maxCourier))
	if err != nil {
		return nil, refuseFile("it is damaged or cut off (%v); copy it again", err)
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
			refuseFile("its version is %d and this program knows versions up to %d; use the newer program here too",
				h.Version, courierVersion)
	case h.Kind != kind:
		return nil,
			refuseFile("it holds %s, and %s are expected: an export is for landfall ams push, receipts are for "+
				"landfall ams import", h.Kind, kind)
	}
	var trailer courierTrailer
	if err := json.Unmarshal(body[end:], &trailer); err != nil || trailer.SHA256 == "" {
		return nil, refuseFile("its end is missing; copy it again")
	}
	sum := sha256.Sum256(text[:end])
	if hex.EncodeToString(sum[:]) != trailer.SHA256 {
		return nil, refuseFile("it was altered since it was written; copy it again")
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
		return nil, refuseFile("it has %d clusters and should have %d; copy it again", len(file.Entries),
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
