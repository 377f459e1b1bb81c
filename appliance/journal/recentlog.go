package journal

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// recentLines is the number of log lines in memory. They take about 2 MiB.
const recentLines = 4096

// RecentLog keeps the latest lines of the appliance's log in memory, as records. It formats them
// only for an export.
type RecentLog struct {
	requestID func(context.Context) string

	mu    sync.Mutex
	lines []recentLine // a ring buffer once it has recentLines lines
	next  int          // index of the oldest line in a full ring
}

type recentLine struct {
	record  slog.Record
	request string
	attrs   []slog.Attr
}

// NewRecentLog returns an empty log. requestID returns the ID of the HTTP request in a context, or
// "".
func NewRecentLog(requestID func(context.Context) string) *RecentLog {
	return &RecentLog{requestID: requestID}
}

// Logger returns a logger that forwards every record to another logger and keeps records of level
// info and above.
func (l *RecentLog) Logger(to *slog.Logger) *slog.Logger {
	return slog.New(&recentHandler{Handler: to.Handler(), log: l})
}

type recentHandler struct {
	slog.Handler
	log   *RecentLog
	attrs []slog.Attr
}

func (h *recentHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

func (h *recentHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo {
		h.log.add(recentLine{record: record.Clone(), request: h.log.requestID(ctx), attrs: h.attrs})
	}
	if !h.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h *recentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recentHandler{h.Handler.WithAttrs(attrs), h.log, append(slices.Clip(h.attrs), attrs...)}
}

func (h *recentHandler) WithGroup(name string) slog.Handler {
	return &recentHandler{h.Handler.WithGroup(name), h.log, h.attrs}
}

func (l *RecentLog) add(line recentLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < recentLines {
		l.lines = append(l.lines, line)
		return
	}
	l.lines[l.next] = line
	l.next = (l.next + 1) % recentLines
}

// write writes the lines that contain one of the IDs, or all lines if ids is nil, the oldest first.
// It applies redact to each line.
func (l *RecentLog) write(out io.Writer, ids []string, redact func(string) string) error {
	l.mu.Lock()
	lines := append(slices.Clone(l.lines[l.next:]), l.lines[:l.next]...)
	l.mu.Unlock()
	var text bytes.Buffer
	handler := slog.NewTextHandler(&text, nil)
	for _, line := range lines {
		text.Reset()
		record := line.record
		record.AddAttrs(line.attrs...)
		if line.request != "" {
			record.AddAttrs(slog.String("request_id", line.request))
		}
		if err := handler.Handle(context.Background(), record); err != nil {
			return err
		}
		written := text.String()
		if ids != nil && !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(written, id) }) {
			continue
		}
		if _, err := io.WriteString(out, strings.TrimSuffix(redact(written), "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
