package appliance

import (
	"context"
	"strings"
	"sync"

	"landfall/web/api"
	"landfall/web/console"
)

// view tells the console what the appliance is and has.
type view struct {
	appliance *Appliance
	images    *discoveryImages
}

// Status says what the appliance is and has.
func (v view) Status(context.Context) (*console.Status, error) {
	a := v.appliance
	status := &console.Status{Version: a.version, URL: a.urls[0], Addresses: a.urls[1:], OSImages: a.images.states(), Releases: []console.Release{}}
	for _, release := range a.config.ReleaseImages {
		status.Releases = append(status.Releases, console.Release{OpenshiftVersion: release.OpenshiftVersion, CPUArchitecture: release.CPUArchitecture})
	}
	return status, nil
}

// Image describes an infra-env's discovery image. Its digest is computed in the background and empty until it is there.
func (v view) Image(ctx context.Context, id string) (*console.Image, error) {
	env, err := v.appliance.engine.InfraEnv(id)
	if err != nil {
		return nil, api.Problem(err)
	}
	made, err := v.images.Image(ctx, id, "")
	if err != nil {
		return nil, err
	}
	return &console.Image{
		URL: env.DownloadURL, FileName: "discovery_image_" + made.Name + ".iso", SizeBytes: made.Size(),
		SHA256: v.images.digests.of(made.ETag(), made.SHA256), ETag: made.ETag(), Type: string(*env.Type),
	}, nil
}

// states returns the states of the OS images in the console's words.
func (o *osImages) states() []console.OSImage {
	o.mu.Lock()
	defer o.mu.Unlock()
	states := make([]console.OSImage, 0, len(o.images))
	for _, image := range o.images {
		state := console.OSImage{OpenshiftVersion: image.config.OpenshiftVersion, CPUArchitecture: image.config.CPUArchitecture, State: "ready"}
		switch image.state {
		case imageBad:
			state.State, state.Message = "failed", image.message
		case imageWaiting, imageDownloading:
			state.State, state.Message = "fetching", strings.TrimSpace("being downloaded "+image.message)
		}
		states = append(states, state)
	}
	return states
}

// digests are the digests of images, computed one at a time in the background and kept for those asked for last.
type digests struct {
	mu      sync.Mutex
	known   map[string]string // by ETag; empty while it is being computed
	order   []string
	pending chan digestJob
}

type digestJob struct {
	tag     string
	compute func(context.Context) (string, error)
}

func newDigests() *digests {
	return &digests{known: make(map[string]string), pending: make(chan digestJob, heldImages)}
}

// of returns the digest of an image or, when it is not known yet, has it computed and returns "".
func (d *digests) of(tag string, compute func(context.Context) (string, error)) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sum, ok := d.known[tag]; ok {
		return sum
	}
	select {
	case d.pending <- digestJob{tag, compute}:
		d.known[tag] = ""
		d.order = append(d.order, tag)
		if len(d.order) > heldImages {
			delete(d.known, d.order[0])
			d.order = d.order[1:]
		}
	default: // too many wait already; the next question tries again
	}
	return ""
}

// run computes digests until the context ends.
func (d *digests) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case job := <-d.pending:
			sum, err := job.compute(ctx)
			d.mu.Lock()
			if err != nil {
				delete(d.known, job.tag)
			} else {
				d.known[job.tag] = sum
			}
			d.mu.Unlock()
			// A base that was changed meanwhile has no digest; whoever asks for the image next is told.
		}
	}
}
