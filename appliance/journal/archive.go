package journal

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"landfall/appliance/sitekey"
)

// A journal is a tar file, compressed with gzip. Its members are in this order:
//
//	manifest.json   description of the journal, with the size and SHA-256 of each other member
//	manifest.sig    the site's signature of manifest.json, 64 bytes
//	base.jsonl      the objects before the first step, one per line
//	steps.jsonl     the steps, one per line
//	logs/...        logs as text, if there are any
//
// A journal can therefore be read with tar and jq, without Landfall.
const (
	manifestName  = "manifest.json"
	signatureName = "manifest.sig"
	baseName      = "base.jsonl"
	stepsName     = "steps.jsonl"
	logsDirectory = "logs/"
)

// Extension is the extension of the file names of journals.
const Extension = ".journal"

// format and formatVersion distinguish journals from other files and from newer formats.
const (
	format        = "landfall journal"
	formatVersion = 1
)

// Purpose is the purpose with which a site's key signs journals.
const Purpose sitekey.Purpose = "landfall journal 1"

const (
	manifestLimit = 1 << 20  // bytes
	memberLimit   = 1 << 30  // bytes, of each other member
	lineLimit     = 64 << 20 // bytes
)

// Manifest describes a journal. The site signs it.
type Manifest struct {
	Format      string         `json:"format"`
	Version     int            `json:"version"`
	Landfall    string         `json:"landfall"` // version of the program that exported the journal
	Key         sitekey.Public `json:"key"`
	MadeAt      time.Time      `json:"made_at"`
	ClusterID   string         `json:"cluster_id"`
	ClusterName string         `json:"cluster_name"`
	Revision    uint64         `json:"revision"`
	Steps       int            `json:"steps"`
	Dropped     uint64         `json:"dropped_changes"`
	State       string         `json:"state_sha256"` // see State.Hash
	Notes       []string       `json:"notes,omitempty"`
	Members     []Member       `json:"members"`
}

// Member is a part of a journal.
type Member struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Log is a log in a journal. Write writes the log without secrets.
type Log struct {
	Name  string
	Write func(io.Writer) error
}

// Write writes a journal and signs it with the site's key. The notes are sentences about missing
// parts.
func Write(out io.Writer, recording *Recording, logs []Log, notes []string, version string,
	key *sitekey.Key) (_ *Manifest, err error) {
	spool, err := newSpool()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.close()) }()
	if err := spool.add(baseName, lines(recording.Base)); err != nil {
		return nil, err
	}
	if err := spool.add(stepsName, lines(recording.Steps)); err != nil {
		return nil, err
	}
	for _, log := range logs {
		if err := spool.add(logsDirectory+log.Name, log.Write); err != nil {
			return nil, err
		}
	}
	manifest := &Manifest{
		Format: format, Version: formatVersion, Landfall: version, Key: key.Public(), MadeAt: recording.MadeAt,
		ClusterID:   recording.ClusterID,
		ClusterName: recording.ClusterName, Revision: recording.Revision, Steps: len(recording.Steps),
		Dropped: recording.Dropped, State: recording.Hash,
		Notes: notes, Members: spool.members,
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, err
	}
	signature, err := key.Sign(Purpose, text)
	if err != nil {
		return nil, err
	}
	packed := gzip.NewWriter(out)
	archive := tar.NewWriter(packed)
	for _, small := range []struct {
		name string
		data []byte
	}{{manifestName, text}, {signatureName, signature}} {
		if err := errors.Join(archive.WriteHeader(header(small.name, int64(len(small.data)), manifest.MadeAt)),
			writeAll(archive, small.data)); err != nil {
			return nil, fmt.Errorf("write %s: %w", small.name, err)
		}
	}
	if err := spool.copyTo(archive, manifest.MadeAt); err != nil {
		return nil, err
	}
	return manifest, errors.Join(archive.Close(), packed.Close())
}

func header(name string, size int64, at time.Time) *tar.Header {
	return &tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: at.Truncate(time.Second), Format: tar.FormatPAX}
}

func writeAll(out io.Writer, data []byte) error {
	_, err := out.Write(data)
	return err
}

// lines returns a function that writes values as JSON, one value per line.
func lines[T any](values []T) func(io.Writer) error {
	return func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		for i := range values {
			if err := encoder.Encode(values[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// spool is a temporary file with the concatenated members. The manifest precedes the members in the
// journal and contains their sizes and hashes, so all members must be complete first.
type spool struct {
	file    *os.File
	members []Member
}

func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "landfall-journal-")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file for the journal: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil { // the open file remains usable
		return nil, errors.Join(err, file.Close())
	}
	return &spool{file: file}, nil
}

func (s *spool) close() error { return s.file.Close() }

func (s *spool) add(name string, write func(io.Writer) error) error {
	hash := sha256.New()
	counted := &counter{}
	buffered := bufio.NewWriter(io.MultiWriter(s.file, hash, counted))
	if err := errors.Join(write(buffered), buffered.Flush()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	s.members = append(s.members, Member{Name: name, Size: counted.n, SHA256: hex.EncodeToString(hash.Sum(nil))})
	return nil
}

func (s *spool) copyTo(archive *tar.Writer, at time.Time) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for _, member := range s.members {
		err := archive.WriteHeader(header(member.Name, member.Size, at))
		if err == nil {
			_, err = io.CopyN(archive, s.file, member.Size)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", member.Name, err)
		}
	}
	return nil
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// Errors of files that are not intact journals.
var (
	ErrForeign = errors.New("this is not a journal of Landfall")
	ErrNewer   = errors.New("this journal was exported by a newer version of Landfall; replay it with that version " +
		"or a newer one")
	ErrTruncated = errors.New("this journal is incomplete; download it again")
	ErrTampered  = errors.New("this journal was altered after the export; its content cannot be trusted")
)

// Archive is a journal with a valid signature.
type Archive struct {
	Manifest  Manifest
	Recording Recording
}

// Read reads a whole journal and verifies its signature. The error is one of the four errors above,
// or a read error.
func Read(in io.Reader) (*Archive, error) {
	buffered := bufio.NewReader(in)
	if magic, err := buffered.Peek(2); err == nil && string(magic) != "\x1f\x8b" {
		return nil, ErrForeign
	}
	packed, err := gzip.NewReader(buffered)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ErrTruncated
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	r := &reader{archive: tar.NewReader(packed), read: new(Archive)}
	if err := r.readAll(); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, packed); err != nil { // the checksum after the last member
		return nil, damage(err)
	}
	return r.read, nil
}

type reader struct {
	archive *tar.Reader
	read    *Archive
}

func (r *reader) readAll() error {
	text, err := r.readHeader(manifestName)
	if err != nil {
		return err
	}
	manifest := &r.read.Manifest
	var head struct {
		Format  string
		Version int
	}
	if err := json.Unmarshal(text, &head); err != nil || head.Format != format {
		return fmt.Errorf("%w: its %s describes another kind of file", ErrForeign, manifestName)
	}
	if head.Version > formatVersion {
		return fmt.Errorf("%w (the format is %d, but this program supports up to %d)", ErrNewer, head.Version,
			formatVersion)
	}
	if err := json.Unmarshal(text, manifest); err != nil {
		return fmt.Errorf("%w: %w", ErrTampered, err)
	}
	signature, err := r.readHeader(signatureName)
	if err != nil {
		return err
	}
	if err := manifest.Key.Verify(Purpose, text, signature); err != nil {
		return fmt.Errorf("%w: %w", ErrTampered, err)
	}
	recording := &r.read.Recording
	recording.ClusterID, recording.ClusterName, recording.Revision = manifest.ClusterID, manifest.ClusterName,
		manifest.Revision
	recording.MadeAt, recording.Dropped, recording.Hash = manifest.MadeAt, manifest.Dropped, manifest.State
	for _, member := range manifest.Members {
		if err := r.member(member); err != nil {
			return err
		}
	}
	if _, err := r.archive.Next(); !errors.Is(err, io.EOF) {
		if err != nil {
			return damage(err)
		}
		return fmt.Errorf("%w: it has additional members", ErrTampered)
	}
	if len(recording.Steps) != manifest.Steps {
		return fmt.Errorf("%w: it has %d steps, but its manifest states %d", ErrTampered, len(recording.Steps),
			manifest.Steps)
	}
	return nil
}

// readHeader reads the manifest or its signature.
func (r *reader) readHeader(name string) ([]byte, error) {
	found, err := r.archive.Next()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrTruncated
	case err != nil:
		return nil, fmt.Errorf("%w: it has no %s", ErrForeign, name)
	case found.Name != name || found.Size > manifestLimit:
		return nil, fmt.Errorf("%w: it has no %s in the expected place", ErrForeign, name)
	}
	text, err := io.ReadAll(r.archive)
	if err != nil {
		return nil, damage(err)
	}
	return text, nil
}

// member reads a member that the manifest lists.
func (r *reader) member(want Member) error {
	found, err := r.archive.Next()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s is missing", ErrTruncated, want.Name)
	}
	if err != nil {
		return damage(err)
	}
	if found.Name != want.Name || found.Size != want.Size || want.Size > memberLimit {
		return fmt.Errorf("%w: %s differs from the signed one", ErrTampered, found.Name)
	}
	hash := sha256.New()
	content := io.TeeReader(r.archive, hash)
	recording := &r.read.Recording
	var read error
	switch {
	case want.Name == baseName:
		recording.Base, read = readLines[Object](content)
	case want.Name == stepsName:
		recording.Steps, read = readLines[Step](content)
	case !strings.HasPrefix(want.Name, logsDirectory):
		return fmt.Errorf("%w: it has an unknown member %s", ErrForeign, want.Name)
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return damage(err)
	}
	if hex.EncodeToString(hash.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%w: %s differs from the signed one", ErrTampered, want.Name)
	}
	if read != nil {
		return fmt.Errorf("%w: %s: %w", ErrForeign, want.Name, read)
	}
	return nil
}

func readLines[T any](in io.Reader) ([]T, error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), lineLimit)
	var values []T
	for scanner.Scan() {
		var value T
		decoder := json.NewDecoder(bytes.NewReader(scanner.Bytes()))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, scanner.Err()
}

// damage classifies a read error: the file ends too early, or it was altered.
func damage(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return fmt.Errorf("%w: %w", ErrTampered, err)
}
