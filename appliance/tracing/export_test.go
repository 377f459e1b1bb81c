package tracing

import "context"

// Flush sends the spans that wait.
func (r *Recorder) Flush(ctx context.Context) error { return r.provider.ForceFlush(ctx) }
