package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"

	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
)

// CatalogReader reads catalogs of operators and asks for images, both through the mirror;
// *release.Library implements it.
type CatalogReader interface {
	Catalog(ctx context.Context, image string, secret authn.Keychain, packages []string) (*release.Catalog, error)
	Holds(ctx context.Context, image string, secret authn.Keychain) error
}

// OperatorCheck is what the mirror was found to hold for one operator of a cluster.
type OperatorCheck struct {
	Name     string       `json:"name"`
	Title    string       `json:"title"`
	Catalog  string       `json:"catalog"`             // the image that was read
	ServedBy string       `json:"served_by,omitempty"` // where
	Package  string       `json:"package"`
	Channel  string       `json:"channel,omitempty"`
	Bundle   string       `json:"bundle,omitempty"` // the newest of the channel
	Images   []ImageCheck `json:"images"`           // all that the bundle needs
	Problems []string     `json:"problems"`         // sentences, in the order in which they are to be dealt with
}

// ImageCheck is one image that an operator needs.
type ImageCheck struct {
	Image   string `json:"image"`
	Problem string `json:"problem,omitempty"` // why it can't be had
}

// imagesAtOnce is how many images the mirror is asked for at the same time.
const imagesAtOnce = 8

// CheckOperators reads the catalogs of a cluster's operators through the mirror, finds what each
// operator's newest bundle needs, and asks the mirror for every image of it. It takes as long as
// the catalogs take to be read.
func (e *Engine) CheckOperators(ctx context.Context, id string) ([]OperatorCheck, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return nil, err
	}
	reader := e.clusterAccess(&row.API).CatalogReader
	if reader == nil {
		return nil, &Error{Kind: Unavailable, Reason: "This appliance can't read catalogs of operators."}
	}
	text, err := e.openSecret(row.PullSecret)
	if err != nil {
		return nil, err
	}
	secret, err := mirror.ParsePullSecret(text)
	if err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence(err), Err: err}
	}
	check := &catalogCheck{reader: reader, version: row.API.OpenshiftVersion, secret: secret,
		catalogs: make(map[string]readCatalog)}
	names := chosenOperators(&row.API, true)
	for _, s := range e.supplies(row) {
		check.read(ctx, s, names)
	}
	list := []OperatorCheck{}
	for _, name := range names {
		if o, ok := operator.ByName(name); ok {
			list = append(list, check.operator(o))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	check.askForImages(ctx, list)
	return list, ctx.Err()
}

// catalogCheck is one run of [Engine.CheckOperators].
type catalogCheck struct {
	reader   CatalogReader
	version  string
	secret   authn.Keychain
	catalogs map[string]readCatalog // by OpenShift's name of the catalog
}

type readCatalog struct {
	Supply
	*release.Catalog
	err error
}

// read reads a catalog for what the operators that come from it need.
func (c *catalogCheck) read(ctx context.Context, s Supply, operators []string) {
	var packages []string
	for _, name := range operators {
		if o, ok := operator.ByName(name); ok && o.SubscriptionFor(c.version).Catalog == s.Catalog {
			packages = append(packages, o.Packages(c.version)...)
		}
	}
	catalog, err := c.reader.Catalog(ctx, s.Image, c.secret, packages)
	c.catalogs[s.Catalog] = readCatalog{s, catalog, err}
}

// operator finds an operator's packages in their catalog.
func (c *catalogCheck) operator(o *operator.Operator) OperatorCheck {
	s := o.SubscriptionFor(c.version)
	catalog := c.catalogs[s.Catalog]
	found := OperatorCheck{Name: o.Name, Title: o.Title, Catalog: catalog.Image, Package: s.Package, Channel: s.Channel,
		Images: []ImageCheck{}, Problems: []string{}}
	if catalog.Missing != "" {
		found.Problems = append(found.Problems, sentence(fmt.Errorf("%s", catalog.Missing)))
	}
	if catalog.err != nil {
		found.Problems = append(found.Problems, sentence(catalog.err))
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
			found.Problems = append(found.Problems, fmt.Sprintf("The catalog %s has no package %s; mirror it too.",
				catalog.Image, wanted))
			continue
		}
		bundle, images, ok := held.Head(channel)
		if !ok {
			found.Problems = append(found.Problems,
				fmt.Sprintf("The package %s of the catalog %s has no channel %q; mirror that channel too, or add a "+
					"Subscription of your own for one of %s.",
					wanted, catalog.Image, orText(channel, held.DefaultChannel), strings.Join(held.Channels(), ", ")))
			continue
		}
		if wanted == s.Package {
			found.Bundle, found.Channel = bundle, orText(channel, held.DefaultChannel)
		}
		for _, image := range images {
			if !slices.ContainsFunc(found.Images, func(known ImageCheck) bool { return known.Image == image }) {
				found.Images = append(found.Images, ImageCheck{Image: image})
			}
		}
	}
	for _, image := range o.AdditionalImages {
		found.Images = append(found.Images, ImageCheck{Image: image})
	}
	return found
}

// askForImages asks the mirror for each image once and notes which can't be had.
func (c *catalogCheck) askForImages(ctx context.Context, list []OperatorCheck) {
	var mu sync.Mutex
	problems := make(map[string]string)
	var group sync.WaitGroup
	places := make(chan struct{}, imagesAtOnce)
	for _, found := range list {
		for _, image := range found.Images {
			mu.Lock()
			_, asked := problems[image.Image]
			problems[image.Image] = ""
			mu.Unlock()
			if asked {
				continue
			}
			places <- struct{}{}
			group.Go(func() {
				defer func() { <-places }()
				if err := c.reader.Holds(ctx, image.Image, c.secret); err != nil {
					mu.Lock()
					problems[image.Image] = sentence(err)
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	for i := range list {
		missing := 0
		for j := range list[i].Images {
			image := &list[i].Images[j]
			if image.Problem = problems[image.Image]; image.Problem != "" {
				missing++
			}
		}
		if missing > 0 {
			list[i].Problems = append(list[i].Problems,
				fmt.Sprintf("%d of the %d images of %s can't be had from the mirror; each says why.", missing,
					len(list[i].Images), list[i].Title))
		}
	}
}
