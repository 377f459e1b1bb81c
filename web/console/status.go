package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/osimage"
	"landfall/appliance/replica"
	"landfall/web/operation"
)

// Appliance is the running appliance.
type Appliance interface {
	// Status describes the appliance.
	Status(ctx context.Context) (*Status, error)
}

// Status describes the appliance: its version, its addresses, its images, its releases and
// its protections.
type Status struct {
	Version   string   `json:"version"`
	URL       string   `json:"url"`       // URL for hosts and management controllers
	Addresses []string `json:"addresses"` // other URLs of the appliance
	// AuthorityFingerprint is the SHA-256 of the appliance's certificate authority; it is empty
	// without TLS.
	AuthorityFingerprint string    `json:"authority_fingerprint,omitempty"`
	OSImages             []OSImage `json:"os_images"`
	Releases             []Release `json:"releases"`
	// Protections are the doctor's findings about the appliance itself: accounts, TLS, seal,
	// sandbox and audit trail.
	Protections []doctor.Finding `json:"protections"`
	Replica     *replica.State   `json:"replica,omitempty"` // absent if the appliance has none
}

// OSImage is the state of one base ISO.
type OSImage struct {
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
	State            string `json:"state"`             // ready, fetching or failed
	Message          string `json:"message,omitempty"` // a sentence if the image is not ready
}

// Release is the state of one release image.
type Release struct {
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
	State            string `json:"state,omitempty"`
	Message          string `json:"message,omitempty"`
}

// StatusOperations returns the operation on the appliance's status.
func StatusOperations(appliance Appliance) []operation.Operation {
	return []operation.Operation{
		{ID: "getStatus", Method: http.MethodGet, Path: BasePath + "/status",
			Access: operation.For(access.Viewer).OfAll(),
			Handler: func(c echo.Context) error {
				status, err := appliance.Status(c.Request().Context())
				return answer(c, status, err)
			},
			Summary: "Show the appliance's version, addresses, base images, releases and protections",
			Status:  http.StatusOK, Answer: Status{}},
	}
}

// SiteStatus implements [Appliance].
type SiteStatus struct {
	Version string   // version of the program
	URLs    []string // the preferred URL first
	// AuthorityFingerprint is the SHA-256 of the certificate authority; "" without TLS.
	AuthorityFingerprint string
	Releases             func() []engine.ReleaseImage
	OSImages             *osimage.Library
	// Protections returns the findings about the appliance itself.
	Protections func() []doctor.Finding
	// Replica returns the state of the replica, or nil.
	Replica func() *replica.State
}

// Status returns the state of the appliance, its base ISOs and its releases. A release without a
// live ISO has failed.
func (s SiteStatus) Status(context.Context) (*Status, error) {
	images, err := s.OSImages.List()
	if err != nil {
		return nil, err
	}
	status := &Status{Version: s.Version, URL: s.URLs[0], Addresses: s.URLs[1:],
		AuthorityFingerprint: s.AuthorityFingerprint,
		OSImages:             make([]OSImage, 0, len(images)), Releases: []Release{}, Protections: s.Protections(),
		Replica: s.Replica()}
	for _, image := range images {
		status.OSImages = append(status.OSImages, osImageStatus(image))
	}
	for _, image := range s.Releases() {
		shown := Release{OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: image.CPUArchitecture}
		if err := s.OSImages.CheckRelease(image.OpenshiftVersion, image.CPUArchitecture); err != nil {
			shown.State, shown.Message = "failed", err.Error()
		}
		status.Releases = append(status.Releases, shown)
	}
	return status, nil
}

func osImageStatus(image osimage.Image) OSImage {
	status := OSImage{OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: image.CPUArchitecture,
		State: "ready", Message: image.Message}
	switch image.State {
	case osimage.StateBad:
		status.State = "failed"
	case osimage.StateWaiting, osimage.StateDownloading:
		status.State, status.Message = "fetching", image.Progress()
	}
	return status
}
