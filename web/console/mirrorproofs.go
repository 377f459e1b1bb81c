package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/mirror/site"
	"landfall/web/problem"
)

// MirrorProofsRoute is where proofs of the mirror are ordered and listed.
const MirrorProofsRoute = MirrorRoute + "/proofs"

// MirrorProofs is what the console asks about proofs; its errors are fit for problem.From.
type MirrorProofs interface {
	// Start begins a proof in the background.
	Start(ctx context.Context, wanted site.ProofRequest) (*site.Proof, error)
	// Proofs lists the proofs of late, the newest first, without their results.
	Proofs() []site.Proof
	// Proof returns one with its results.
	Proof(id string) (*site.Proof, error)
	// List writes what a proof found missing as a shopping list: text, imageset or csv.
	List(id, format string) (name string, data []byte, err error)
	// AcceptGaps has a cluster be installed although images are missing, or takes that back.
	AcceptGaps(ctx context.Context, clusterID string, accept bool) error
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
	return answer(c, map[string][]site.Proof{"proofs": filled(m.proofs.Proofs())})
}

func (m mirrorProofs) start(c echo.Context) error {
	var wanted site.ProofRequest
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
