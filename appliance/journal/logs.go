package journal

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"landfall/appliance/archive"
)

const (
	// LogLimit is the maximum size of a log's text in a journal, in bytes.
	LogLimit = 16 << 20
	// logLine is the maximum length of a log line, in bytes. Longer lines are split.
	logLine = 64 << 10
	// logDepth is the maximum nesting of archives.
	logDepth = 4
	// Limits of an archive with logs, including the binary files that are omitted.
	logBytes   = 8 << 30
	logEntries = 100_000
	logTime    = time.Minute
)

// errLogFull is the error of a log that exceeds LogLimit.
var errLogFull = errors.New("the log is too large")

// CopyLog writes a log as text without secrets. Archives (tar, gzip) are written as the
// concatenated texts in them. Binary files, and everything after LogLimit, are replaced by a note.
func CopyLog(out io.Writer, in io.Reader, redactor *Redactor) error {
	c := &logCopier{out: out, left: LogLimit, redactor: redactor,
		guard: archive.NewGuard(archive.Limits{Bytes: logBytes, Entries: logEntries, Time: logTime})}
	return c.start(in)
}

func (c *logCopier) start(in io.Reader) error {
	limit := c.left
	err := c.copy(in, "", 0)
	if errors.Is(err, errLogFull) {
		_, err = fmt.Fprintf(c.out, "\n[The log is larger than %d KiB; the rest is omitted.]\n", limit>>10)
	}
	return err
}

type logCopier struct {
	out       io.Writer
	left      int64
	redactor  *Redactor
	guard     *archive.Guard
	insideKey bool // the current line is inside a private key
}

func (c *logCopier) print(text string) error {
	if c.left -= int64(len(text)); c.left < 0 {
		return errLogFull
	}
	_, err := io.WriteString(c.out, text)
	return err
}

// tarMagic is the offset of the magic "ustar" in a tar header.
const tarMagic = 257

func (c *logCopier) copy(in io.Reader, name string, depth int) error {
	buffered := bufio.NewReaderSize(in, logLine)
	head, err := buffered.Peek(tarMagic + 5)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return c.noteReadError(name, err)
	}
	switch {
	case depth > logDepth:
		return c.print(fmt.Sprintf("==> %s: omitted, because archives are nested too deeply <==\n", name))
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		unpacked, err := gzip.NewReader(c.guard.Packed(buffered))
		if err != nil {
			return c.noteReadError(name, err)
		}
		return c.copy(c.guard.Unpacked(unpacked), name, depth+1)
	case len(head) == tarMagic+5 && string(head[tarMagic:]) == "ustar":
		return c.archive(tar.NewReader(buffered), name, depth)
	}
	if name != "" {
		if err := c.print("==> " + c.redactor.Text(name) + " <==\n"); err != nil {
			return err
		}
	}
	if !isText(head) {
		return c.print("[Omitted: not a text file.]\n")
	}
	return c.text(buffered, name)
}

func (c *logCopier) archive(members *tar.Reader, name string, depth int) error {
	for {
		member, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.guard.Entry()
		}
		if err != nil {
			return c.noteReadError(name, err)
		}
		if member.Typeflag != tar.TypeReg {
			continue
		}
		if err := c.copy(members, strings.TrimPrefix(name+"/"+member.Name, "/"), depth+1); err != nil {
			return err
		}
	}
}

// noteReadError writes a note that the rest of the log could not be read. The part before the error
// is kept.
func (c *logCopier) noteReadError(name string, err error) error {
	return c.print(fmt.Sprintf("[%s can't be read further: %s]\n", strings.TrimSpace("The log "+c.redactor.Text(name)),
		err))
}

func (c *logCopier) text(in *bufio.Reader, name string) error {
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			if err := c.line(strings.ToValidUTF8(string(line), "\uFFFD")); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			c.insideKey = false
			return c.print("\n")
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return c.noteReadError(name, err)
		}
	}
}

// line prints a line unless it belongs to a private key.
func (c *logCopier) line(line string) error {
	if c.insideKey {
		c.insideKey = !strings.Contains(line, "-----END")
		return nil
	}
	c.insideKey = strings.Contains(line, "PRIVATE KEY-----") && strings.Contains(line, "-----BEGIN") &&
		!strings.Contains(line, "-----END")
	text := c.redactor.Text(line)
	if !strings.HasSuffix(text, "\n") && strings.HasSuffix(line, "\n") {
		text += "\n"
	}
	return c.print(text)
}

// isText reports whether the beginning of a file is text, which contains no NUL byte.
func isText(head []byte) bool { return bytes.IndexByte(head, 0) < 0 }
