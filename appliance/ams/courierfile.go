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

// What a courier carries is one file: lines of JSON, compressed by gzip. The first line is the
// header, the last one the trailer with the count of the lines between, the SHA-256 of all lines
// before it and a signature of that; between them is a line for each cluster. There is no token in
// it, no pull secret, and nothing of hosts.

const (
	courierFormat  = "landfall.ams.courier"
	courierVersion = 1
	courierPurpose = sitekey.Purpose("landfall ams courier")
	maxCourier     = 1 << 30 // bytes, unpacked
)

// CourierKind is what a courier's file is.
type CourierKind string

// The kinds of files.
const (
	Export   CourierKind = "export"   // from a site: what AMS must be told
	Receipts CourierKind = "receipts" // back to it: what AMS was told
)

// CourierHeader is the first line of a courier's file.
type CourierHeader struct {
	Format         string         `json:"format"`
	Version        int            `json:"version"`
	Kind           CourierKind    `json:"kind"`
	Export         string         `json:"export_id"`
	CreatedAt      time.Time      `json:"created_at"`
	Site           string         `json:"site"` // fingerprint of the key of the site that exported
	APIURL         string         `json:"api_url"`
	OrganizationID string         `json:"organization_id,omitempty"`
	Account        string         `json:"account_username,omitempty"` // that the site wants subscriptions made for
	FinalStatus    string         `json:"final_status,omitempty"`
	Key            sitekey.Public `json:"key"` // whose signature the trailer has
	Entries        int            `json:"entries"`
}

// CourierEntry is a cluster in a courier's file: what is desired and recorded when it leaves the
// site, and what is recorded when it comes back.
type CourierEntry struct {
	ClusterID string          `json:"cluster_id"`
	Desired   outbox.Desired  `json:"desired"`
	Recorded  outbox.Recorded `json:"recorded"`
	// of a receipt: sent, conflict, blocked, dead, deleted, left, nothing, later
	Outcome string `json:"outcome,omitempty"`
	Problem string `json:"problem,omitempty"`
}

type courierTrailer struct {
	Count     int    `json:"count"`
	SHA256    string `json:"sha256"`
	Signature []byte `json:"signature"`
}

// CourierFile is a courier's file that was read and found whole.
type CourierFile struct {
	Header  CourierHeader
	Entries []CourierEntry
}

// WriteCourier writes a courier's file, signed with the key.
func WriteCourier(w io.Writer, key *sitekey.Key, file CourierFile) error {
	file.Header.Format, file.Header.Version, file.Header.Key, file.Header.Entries = courierFormat, courierVersion,
		key.Public(), len(file.Entries)
	digest := sha256.New()
	zip := gzip.NewWriter(w)
	encoder := json.NewEncoder(io.MultiWriter(zip, digest))
	if err := encoder.Encode(file.Header); err != nil {
		return fmt.Errorf("write the courier's file: %w", err)
	}
	for i := range file.Entries {
		if err := encoder.Encode(&file.Entries[i]); err != nil {
			return fmt.Errorf("write the courier's file: %w", err)
		}
	}
	sum := digest.Sum(nil)
	signature, err := key.Sign(courierPurpose, sum)
	if err != nil {
		return err
	}
	trailer := courierTrailer{len(file.Entries), hex.EncodeToString(sum), signature}
	if err := errors.Join(json.NewEncoder(zip).Encode(trailer), zip.Close()); err != nil {
		return fmt.Errorf("write the courier's file: %w", err)
	}
	return nil
}

// ErrCourier is the kind of error of a courier's file that is not taken; its text is a sentence.
var ErrCourier = fault.Sentinel(fault.Invalid, "the courier's file is not taken")

func refuseFile(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCourier}, args...)...)
}

// ReadCourier reads a courier's file of a kind. One that is cut, altered, of another kind or of a
// newer version is refused as a whole. That its key is one to be trusted is for the caller to see.
func ReadCourier(r io.Reader, kind CourierKind) (*CourierFile, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, refuseFile("it is no file that landfall ams export or push wrote")
	}
	text, err := io.ReadAll(io.LimitReader(zip, maxCourier))
	if err != nil {
		return nil, refuseFile("it is damaged or cut off (%v); fetch it anew", err)
	}
	body := bytes.TrimSuffix(text, []byte("\n"))
	end := bytes.LastIndexByte(body, '\n') + 1
	if end == 0 {
		return nil, refuseFile("it is no file that landfall ams export or push wrote")
	}
	file := &CourierFile{}
	lines := bufio.NewReader(bytes.NewReader(text[:end]))
	if err := readLine(lines, &file.Header); err != nil || file.Header.Format != courierFormat {
		return nil, refuseFile("it is no file that landfall ams export or push wrote")
	}
	switch h := file.Header; {
	case h.Version > courierVersion:
		return nil,
			refuseFile("it is of version %d and this program knows versions up to %d; use the newer program here too",
				h.Version, courierVersion)
	case h.Kind != kind:
		return nil,
			refuseFile("it holds %s, and %s are expected: an export is for landfall ams push, receipts are for "+
				"landfall ams import", h.Kind, kind)
	}
	var trailer courierTrailer
	if err := json.Unmarshal(body[end:], &trailer); err != nil || trailer.SHA256 == "" {
		return nil, refuseFile("its end is missing; fetch it anew")
	}
	sum := sha256.Sum256(text[:end])
	if hex.EncodeToString(sum[:]) != trailer.SHA256 {
		return nil, refuseFile("it was altered since it was written; fetch it anew")
	}
	if err := file.Header.Key.Verify(courierPurpose, sum[:], trailer.Signature); err != nil {
		return nil, refuseFile("its signature does not fit; fetch it anew")
	}
	for {
		var entry CourierEntry
		err := readLine(lines, &entry)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, refuseFile("a line of it can not be read (%v)", err)
		}
		file.Entries = append(file.Entries, entry)
	}
	if len(file.Entries) != trailer.Count || trailer.Count != file.Header.Entries {
		return nil, refuseFile("it has %d clusters and should have %d; fetch it anew", len(file.Entries),
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
