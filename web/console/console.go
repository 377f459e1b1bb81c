// Package console serves what is the appliance's own: the page shell of the browser application
// (page.go), the live feed that keeps it up to date (feed.go), and the appliance's API under
// /api/landfall/v1 (this file).
package console

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/jonboulle/clockwork"
	"github.com/labstack/echo/v4"

	"landfall/appliance/osimage"
	"landfall/store"
	"landfall/web/problem"
)

// BasePath is where the appliance's own API begins.
const BasePath = "/api/landfall/v1"

// FeedRoute is the route of the live feed, whose answers never end by themselves.
const FeedRoute = BasePath + "/feed"

// Options is what the console is made from.
type Options struct {
	// UI is the built browser application, index.html at its root.
	UI fs.FS
	// Feed is where changes come from.
	Feed *store.DB
	// ClusterOf names the cluster that an object belongs to, given its kind and key in the store,
	// or "" if it belongs to none or is gone. It is asked for hosts, infra-envs and events.
	ClusterOf func(ctx context.Context, kind, key string) (string, error)
	// Appliance tells what the console's API answers.
	Appliance Appliance
	// Images describes the images of infra-envs.
	Images Images
	// Downloads serves the images of infra-envs.
	Downloads Downloads
	// OSImages are the base images; nil leaves their operations out.
	OSImages *osimage.Library
	// Mirror are the site's mirror rules; nil leaves their operations out.
	Mirror Mirror
	// AMS tells OpenShift Cluster Manager of the clusters; nil leaves its operations out.
	AMS Subscriptions
	// AMSOff keeps people from having AMS told anything: the configuration says so.
	AMSOff bool
	// Local are the tokens by which programs ask the site in AMS's place; nil leaves their
	// operations out.
	Local Tokens
	// Doctor examines the site; nil leaves its operation out.
	Doctor Doctor
	// Operators tells what operators need of the mirror; nil leaves its operations out.
	Operators Operators
	// Journals makes the journals of clusters; nil leaves their download out.
	Journals Journals
	// MirrorProofs are the proofs of the mirror; nil leaves their operations out.
	MirrorProofs MirrorProofs
	// ABIDirectories imports and exports directories of the agent-based installer; nil leaves their
	// operations out.
	ABIDirectories ABIDirectories
	// Rehearsals rehearses installations; nil leaves its operations out.
	Rehearsals Rehearsals
	// BMCs are the servers that are driven by their BMCs; nil leaves their operations out.
	BMCs BMCs
	// StaticNetworks shows what becomes of network descriptions; nil leaves its operation out.
	StaticNetworks StaticNetworks
	// Clock times the feed's heartbeat; nil is the real one.
	Clock clockwork.Clock
	// Draining is closed when the server shuts down: feeds end then. See web.Server.Draining.
	Draining <-chan struct{}
	// Logger hears of feeds that broke off; nil discards it.
	Logger *slog.Logger
}

// Appliance is what the console asks of the running appliance.
type Appliance interface {
	// Status says what the appliance is and has.
	Status(ctx context.Context) (*Status, error)
}

// Status is what the appliance is and has.
type Status struct {
	Version   string    `json:"version"`
	URL       string    `json:"url"`       // that hosts and management controllers are given
	Addresses []string  `json:"addresses"` // other URLs that the appliance is reached under
	OSImages  []OSImage `json:"os_images"`
	Releases  []Release `json:"releases"`
}

// OSImage is the state of one base ISO.
type OSImage struct {
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
	State            string `json:"state"`             // ready, fetching or failed
	Message          string `json:"message,omitempty"` // a sentence, when it is not ready
}

// Release is the state of one release image.
type Release struct {
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
	State            string `json:"state,omitempty"`
	Message          string `json:"message,omitempty"`
}

// Register hangs the console into a router: its API, the feed, and the page for every path that
// nothing else answers.
func Register(router *echo.Echo, options Options) error {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	page, err := newPage(options.UI)
	if err != nil {
		return err
	}
	feed := &feed{options}
	router.GET(FeedRoute, feed.serve)
	router.GET(BasePath+"/status", func(c echo.Context) error {
		status, err := options.Appliance.Status(c.Request().Context())
		if err != nil {
			return err
		}
		return answer(c, status)
	})
	registerImages(router, options.Images, options.Downloads)
	if options.AMS != nil {
		registerSubscriptions(router, options.AMS, options.AMSOff)
	}
	if options.Local != nil {
		registerTokens(router, options.Local)
	}
	if options.Journals != nil {
		registerJournals(router, options.Journals)
	}
	if options.BMCs != nil {
		registerBMCs(router, options.BMCs)
	}
	if options.StaticNetworks != nil {
		registerStaticNetworks(router, options.StaticNetworks)
	}
	if options.OSImages != nil {
		osImages{options.OSImages}.register(router)
	}
	if options.Operators != nil {
		operatorSupplies{options.Operators}.register(router)
	}
	if options.Mirror != nil {
		mirrorRules{options.Mirror}.register(router)
	}
	if options.Doctor != nil {
		registerDoctor(router, options.Doctor)
	}
	if options.MirrorProofs != nil {
		mirrorProofs{options.MirrorProofs}.register(router)
	}
	if options.ABIDirectories != nil {
		abiDirectories{options.ABIDirectories}.register(router)
	}
	if options.Rehearsals != nil {
		rehearsals{options.Rehearsals}.register(router)
	}
	router.GET("/api/*", func(c echo.Context) error {
		return problem.NotFound("GET %s is no operation of the appliance's APIs; look at the path and the method",
			c.Request().URL.Path)
	})
	router.GET("/*", page.serve)
	router.HEAD("/*", page.serve)
	return nil
}

func answer(c echo.Context, value any) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusOK, value)
}
