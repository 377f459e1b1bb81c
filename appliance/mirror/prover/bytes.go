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

// resumptions is the maximum number of times that reading a blob continues after an interruption.
const resumptions = 5

// byteReaders is the number of blobs that are read in parallel.
const byteReaders = 4

// readAll reads every blob of the complete images and verifies its digest. It skips blobs that an
// earlier proof has read, unless the results are to be fresh.
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
			if !check.held || seen[key] || proven != nil && !s.request.Fresh && proven.Has(key) {
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
	damaged := map[string]string{} // the description of the damage, by repository@digest
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

// markDamaged changes the status of images that have a damaged blob.
func (s *session) markDamaged(results []Result, damaged map[string]string) {
	if len(damaged) == 0 {
		return
	}
	for i := range results {
		if results[i].Status != Held {
			continue
		}
		for _, part := range results[i].parts {
			if problem, bad := damaged[repositoryOf(results[i].Endpoint)+"@"+part.Digest]; bad {
				results[i].Status, results[i].Text = Damaged, fmt.Sprintf("%s: %s", describe(results[i].Image),
					problem)
				results[i].Missing = append(results[i].Missing, part)
			}
		}
	}
}

// readBlob reads a whole blob and continues after interruptions. It returns a description of the
// damage, or "" if the blob is intact.
func (r *repository) readBlob(ctx context.Context, digest string, size int64) string {
	sum := sha256.New()
	read := int64(0)
	for try := 0; ; try++ {
		header := http.Header{}
		if read > 0 {
			header.Set("Range", fmt.Sprintf("bytes=%d-%d", read, size-1))
		}
		response, failed := r.sendRetrying(ctx, http.MethodGet, "blobs/"+digest, header)
		if failed != nil {
			return fmt.Sprintf("%s %s when asked for the bytes of %s.", failed.where, failed.answer, digest)
		}
		// the registry ignored the range and starts from the beginning
		if read > 0 && response.StatusCode != http.StatusPartialContent {
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
			return fmt.Sprintf("%s interrupted the transfer %d times, the last time after %d of the %d bytes of %s; "+
				"its storage or the network is faulty.", r.name(), try+1, read, size, digest)
		}
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest && strings.HasPrefix(digest, "sha256:") {
		return fmt.Sprintf("%s sends content with the digest %s for %s; mirror the image again.", r.name(), got,
			digest)
	}
	return ""
}

// counter counts the bytes that are read. The progress shows this count.
type counter struct{ session *session }

func (c counter) Write(p []byte) (int, error) {
	c.session.advance(0, int64(len(p)))
	return len(p), nil
}
