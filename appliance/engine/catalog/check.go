package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"

	"landfall/appliance/engine/operator"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
)

// Reader reads catalogs of operators and requests images, both through the mirror;
// *release.Library implements it.
type Reader interface {
	Catalog(ctx context.Context, image string, secret authn.Keychain, packages []string) (*release.Catalog, error)
	Holds(ctx context.Context, image string, secret authn.Keychain) error
}

// CheckResult reports what the mirror holds for one operator of a cluster.
type CheckResult struct {
	Name     string        `json:"name"`
	Title    string        `json:"title"`
	Catalog  string        `json:"catalog"`             // the image that was read
	ServedBy string        `json:"served_by,omitempty"` // the registry that served the image
	Package  string        `json:"package"`
	Channel  string        `json:"channel,omitempty"`
	Bundle   string        `json:"bundle,omitempty"` // newest bundle of the channel
	Images   []ImageResult `json:"images"`           // all images of the bundle
	Problems []string      `json:"problems"`         // sentences, in the order in which the user must solve them
}

// ImageResult is the result of the request for one image.
type ImageResult struct {
	Image   string `json:"image"`
	Problem string `json:"problem,omitempty"` // reason why the image cannot be pulled
}

// maxRequests limits the concurrent requests for images.
const maxRequests = 8

// Check reads the catalogs of the cluster's operators through the mirror, finds the images of each
// operator's newest bundle, and requests every image. Reading the catalogs takes most of the time.
func (c Cluster) Check(ctx context.Context, reader Reader, secret authn.Keychain) ([]CheckResult, error) {
	check := &check{reader: reader, version: c.API.OpenshiftVersion, secret: secret,
		catalogs: make(map[string]readCatalog)}
	names := operator.Selected(c.API, true)
	for _, origin := range c.Origins() {
		check.read(ctx, origin, names)
	}
	results := []CheckResult{}
	for _, name := range names {
		if o, ok := operator.ByName(name); ok {
			results = append(results, check.operator(o))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	check.requestImages(ctx, results)
	return results, ctx.Err()
}

// check is one run of [Cluster.Check].
type check struct {
	reader   Reader
	version  string
	secret   authn.Keychain
	catalogs map[string]readCatalog // by OpenShift's name for the catalog
}

type readCatalog struct {
	Origin
	*release.Catalog
	err error
}

// read reads the packages of a catalog that the operators need.
func (c *check) read(ctx context.Context, origin Origin, operators []string) {
	var packages []string
	for _, name := range operators {
		if o, ok := operator.ByName(name); ok && o.SubscriptionFor(c.version).Catalog == origin.Catalog {
			packages = append(packages, o.Packages(c.version)...)
		}
	}
	catalog, err := c.reader.Catalog(ctx, origin.Image, c.secret, packages)
	c.catalogs[origin.Catalog] = readCatalog{origin, catalog, err}
}

// operator finds an operator's packages in their catalog, and the images of their bundles.
func (c *check) operator(o *operator.Operator) CheckResult {
	s := o.SubscriptionFor(c.version)
	catalog := c.catalogs[s.Catalog]
	found := CheckResult{Name: o.Name, Title: o.Title, Catalog: catalog.Image, Package: s.Package, Channel: s.Channel,
		Images: []ImageResult{}, Problems: []string{}}
	if catalog.Missing != "" {
		found.Problems = append(found.Problems, sentence.New(errors.New(catalog.Missing)))
	}
	if catalog.err != nil {
		found.Problems = append(found.Problems, sentence.New(catalog.err))
		return found
	}
	found.ServedBy = catalog.ServedBy
	for _, wanted := range o.Packages(c.version) {
		channel := ""
		if wanted == s.Package {
			channel = s.Channel
		}
		held := catalog.Packages[wanted]
		if held == nil {
			found.Problems = append(found.Problems, fmt.Sprintf("The catalog %s lacks the package %s; mirror it too.",
				catalog.Image, wanted))
			continue
		}
		bundle, images, ok := held.Head(channel)
		if !ok {
			found.Problems = append(found.Problems,
				fmt.Sprintf("The package %s of the catalog %s has no channel %q; mirror that channel too, or add a "+
					"Subscription of your own for one of %s.",
					wanted, catalog.Image, cmp.Or(channel, held.DefaultChannel), strings.Join(held.Channels(), ", ")))
			continue
		}
		if wanted == s.Package {
			found.Bundle, found.Channel = bundle, cmp.Or(channel, held.DefaultChannel)
		}
		for _, image := range images {
			if !slices.ContainsFunc(found.Images, func(r ImageResult) bool { return r.Image == image }) {
				found.Images = append(found.Images, ImageResult{Image: image})
			}
		}
	}
	for _, image := range o.AdditionalImages {
		found.Images = append(found.Images, ImageResult{Image: image})
	}
	return found
}

// requestImages requests each image from the mirror once and adds the failures to the results.
func (c *check) requestImages(ctx context.Context, results []CheckResult) {
	var mu sync.Mutex
	problems := make(map[string]string)
	var group sync.WaitGroup
	running := make(chan struct{}, maxRequests)
	for _, found := range results {
		for _, image := range found.Images {
			mu.Lock()
			_, known := problems[image.Image]
			if !known {
				problems[image.Image] = ""
			}
			mu.Unlock()
			if known {
				continue
			}
			running <- struct{}{}
			group.Go(func() {
				defer func() { <-running }()
				if err := c.reader.Holds(ctx, image.Image, c.secret); err != nil {
					mu.Lock()
					problems[image.Image] = sentence.New(err)
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	for i := range results {
		missing := 0
		for j := range results[i].Images {
			image := &results[i].Images[j]
			if image.Problem = problems[image.Image]; image.Problem != "" {
				missing++
			}
		}
		if missing > 0 {
			results[i].Problems = append(results[i].Problems,
				fmt.Sprintf("%d of the %d images of %s are not available from the mirror; see the reason at each "+
					"image.", missing,
					len(results[i].Images), results[i].Title))
		}
	}
}
