package prover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// resumptions is how often a blob that broke off is gone on with.
const resumptions = 5

// byteReaders is how many blobs are read at once.
const byteReaders = 4

// readAll reads every blob of the images that are held and computes its digest. Blobs that were
// read before are left out.
func (s *session) readAll(ctx context.Context, results []Result) error {
	type job struct {
		r      *repository
		digest string
		size   int64
	}
	var jobs []job
	seen := map[string]bool{}
	proven := s.prover.options.Proven
	s.mu.Lock()
	for _, r := range s.repositories {
		r.mu.Lock()
		for digest, check := range r.blobs {
			key := r.name() + "@" + digest
			if !check.held || seen[key] || proven != nil && proven.Has(key) {
				continue
			}
			seen[key] = true
			jobs = append(jobs, job{r, digest, check.size})
		}
		r.mu.Unlock()
	}
	s.mu.Unlock()
	s.counting.Lock()
	for _, j := range jobs {
		s.done.TotalBytes += j.size
	}
	s.counting.Unlock()

	var mu sync.Mutex
	damaged := map[string]string{} // repository@digest to what is wrong
	var errs []error
	queue := make(chan job)
	var group sync.WaitGroup
	for range byteReaders {
		group.Go(func() {
			for j := range queue {
				problem := j.r.readBlob(ctx, j.digest, j.size)
				var err error
				if problem == "" && proven != nil && ctx.Err() == nil {
					err = proven.Mark(ctx, j.r.name()+"@"+j.digest)
				}
				mu.Lock()
				if problem != "" {
					damaged[j.r.name()+"@"+j.digest] = problem
				}
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		select {
		case queue <- j:
		case <-ctx.Done():
		}
	}
	close(queue)
	group.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	s.markDamaged(results, damaged)
	return nil
}

// markDamaged changes the verdict of images that have a damaged blob.
func (s *session) markDamaged(results []Result, damaged map[string]string) {
	if len(damaged) == 0 {
		return
	}
	for i := range results {
		if results[i].Verdict != Held {
			continue
		}
		for _, part := range results[i].parts {
			if problem, bad := damaged[repositoryOf(results[i].Endpoint)+"@"+part.Digest]; bad {
				results[i].Verdict, results[i].Text = Damaged, fmt.Sprintf("%s: %s", describe(results[i].Image),
					problem)
				results[i].Missing = append(results[i].Missing, part)
			}
		}
	}
}

// readBlob reads a blob to its end, going on where it broke off, and returns what is wrong with it,
// or "".
func (r *repository) readBlob(ctx context.Context, digest string, size int64) string {
	sum := sha256.New()
	read := int64(0)
	for try := 0; ; try++ {
		header := http.Header{}
		if read > 0 {
			header.Set("Range", fmt.Sprintf("bytes=%d-%d", read, size-1))
		}
		response, failed := r.ask(ctx, http.MethodGet, "blobs/"+digest, header)
		if failed != nil {
			return fmt.Sprintf("%s %s when asked for the bytes of %s.", failed.where, failed.answer, digest)
		}
		if read > 0 && response.StatusCode != http.StatusPartialContent { // it begins anew
			sum.Reset()
			read = 0
		}
		n, err := io.Copy(io.MultiWriter(sum, counter{r.session}), io.LimitReader(response.Body, size-read+1))
		read += n
		if closeErr := response.Body.Close(); err == nil && read >= size {
			err = closeErr
		}
		if read > size {
			return fmt.Sprintf("%s sends more than the %d bytes that %s has; mirror the image again.", r.name(),
				size, digest)
		}
		if read == size && err == nil {
			break
		}
		if try == resumptions || ctx.Err() != nil {
			return fmt.Sprintf("%s broke off %d times, after %d of the %d bytes of %s; its storage or the way to it "+
				"is damaged.", r.name(), try+1, read, size, digest)
		}
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest && strings.HasPrefix(digest, "sha256:") {
		return fmt.Sprintf("the bytes that %s sends for %s have the digest %s; mirror the image again.", r.name(),
			digest, got)
	}
	return ""
}

// counter tells of bytes as they are read.
type counter struct{ session *session }

func (c counter) Write(p []byte) (int, error) {
	c.session.advance(0, int64(len(p)))
	return len(p), nil
}
