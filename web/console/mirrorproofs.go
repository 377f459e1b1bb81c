package console

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/mirror/prover"
	"landfall/web/problem"
)

// MirrorProofsRoute is where proofs of the mirror are ordered and listed.
const MirrorProofsRoute = MirrorRoute + "/proofs"

// MirrorProofs is what the console asks about proofs; its errors are fit for problem.From.
type MirrorProofs interface {
	// Start begins a proof in the background.
	Start(ctx context.Context, wanted MirrorProofRequest) (*MirrorProof, error)
	// Proofs lists the proofs of late, the newest first, without their results.
	Proofs() []MirrorProof
	// Proof returns one with its results.
	Proof(id string) (*MirrorProof, error)
	// List writes what a proof found missing as a shopping list: text, imageset or csv.
	List(id, format string) (name string, data []byte, err error)
	// AcceptGaps has a cluster be installed although images are missing, or takes that back.
	AcceptGaps(ctx context.Context, clusterID string, accept bool) error
}

// MirrorProofRequest says what to prove: a release or a cluster's.
type MirrorProofRequest struct {
	Release      string `json:"release,omitempty"` // version or pull spec
	Architecture string `json:"cpu_architecture,omitempty"`
	ClusterID    string `json:"cluster_id,omitempty"`
	PullSecret   string `json:"pull_secret,omitempty"` // of a release; "" is the appliance's own
	Bytes        bool   `json:"bytes,omitempty"`       // read every layer
	Fresh        bool   `json:"fresh,omitempty"`       // forget what was proven a moment ago
}

// States of a proof.
const (
	ProofRunning = "running"
	ProofDone    = "done"
	ProofFailed  = "failed"
)

// MirrorProof is one proof.
type MirrorProof struct {
	ID        string    `json:"id"`
	Release   string    `json:"release"` // pull spec
	ClusterID string    `json:"cluster_id,omitempty"`
	Why       string    `json:"why"` // ordered, ready, install
	State     string    `json:"state"`
	Started   time.Time `json:"started"`
	// Message is the outcome in a sentence.
	Message    string `json:"message,omitempty"`
	Complete   bool   `json:"complete"`
	Gaps       int    `json:"gaps"`
	Images     int    `json:"images"` // done, of Total
	Total      int    `json:"total"`
	BytesRead  int64  `json:"bytes_read,omitempty"`
	BytesTotal int64  `json:"bytes_total,omitempty"`
	// Arrived counts what an earlier list named and the mirror holds now, of Awaited.
	Arrived int                   `json:"arrived,omitempty"`
	Awaited int                   `json:"awaited,omitempty"`
	Report  *prover.ReleaseReport `json:"report,omitempty"`
}

type mirrorProofs struct{ proofs MirrorProofs }

func (m mirrorProofs) register(router *echo.Echo) {
	router.GET(MirrorProofsRoute, m.list)
	router.POST(MirrorProofsRoute, m.start)
	router.GET(MirrorProofsRoute+"/:id", m.show)
	router.GET(MirrorProofsRoute+"/:id/list", m.download)
	router.PUT(BasePath+"/clusters/:cluster_id/mirror-gaps", m.accept)
}

func (m mirrorProofs) list(c echo.Context) error {
	return answer(c, map[string][]MirrorProof{"proofs": filled(m.proofs.Proofs())})
}

func (m mirrorProofs) start(c echo.Context) error {
	var wanted MirrorProofRequest
	if err := read(c, &wanted); err != nil {
		return err
	}
	if (wanted.Release == "") == (wanted.ClusterID == "") {
		return problem.BadRequest("Give either a release (version or pull spec) or a cluster_id.")
	}
	proof, err := m.proofs.Start(c.Request().Context(), wanted)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, proof)
}

func (m mirrorProofs) show(c echo.Context) error {
	proof, err := m.proofs.Proof(c.Param("id"))
	if err != nil {
		return err
	}
	return answer(c, proof)
}

func (m mirrorProofs) download(c echo.Context) error {
	name, data, err := m.proofs.List(c.Param("id"), c.QueryParam("format"))
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="`+name+`"`)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", data)
}

func (m mirrorProofs) accept(c echo.Context) error {
	var wanted struct {
		Accept bool `json:"accept"`
	}
	if err := read(c, &wanted); err != nil {
		return err
	}
	if err := m.proofs.AcceptGaps(c.Request().Context(), c.Param("cluster_id"), wanted.Accept); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
