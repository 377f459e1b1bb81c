package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/mirror/site"
	"landfall/web/operation"
	"landfall/web/problem"
)

// MirrorProofsRoute is the route of the proofs of the mirror.
const MirrorProofsRoute = MirrorRoute + "/proofs"

// MirrorProofs checks that the mirror has the images of releases.
type MirrorProofs interface {
	// Start starts a proof in the background.
	Start(ctx context.Context, wanted site.ProofRequest) (*site.Proof, error)
	// Proofs returns the latest proofs without their results, the newest first.
	Proofs() []site.Proof
	// Proof returns a proof with its results.
	Proof(id string) (*site.Proof, error)
	// List returns the missing images of a proof as a file in a format: text, imageset or csv.
	List(id, format string) (name string, data []byte, err error)
	// AcceptGaps permits the installation of a cluster although images are missing, or revokes the
	// permission.
	AcceptGaps(ctx context.Context, clusterID string, accept bool) error
}

type mirrorProofs struct{ proofs MirrorProofs }

// gapAcceptance is the body of a request to permit the installation of a cluster although images
// are missing.
type gapAcceptance struct {
	Accept bool `json:"accept"`
}

// MirrorProofOperations returns the operations on proofs of the mirror.
func MirrorProofOperations(proofs MirrorProofs) []operation.Operation {
	m := mirrorProofs{proofs}
	return []operation.Operation{
		{ID: "listMirrorProofs", Method: http.MethodGet, Path: MirrorProofsRoute,
			Access: operation.For(access.Viewer), Handler: m.list,
			Summary: "List the latest proofs of the mirror, without their results",
			Status:  http.StatusOK, Answer: map[string][]site.Proof{}},
		{ID: "startMirrorProof", Method: http.MethodPost, Path: MirrorProofsRoute,
			Access: operation.For(access.Operator), Handler: m.start,
			Summary: "Start a proof that the mirror has all images of a release",
			Body:    site.ProofRequest{},
			Status:  http.StatusAccepted, Answer: site.Proof{}, Errors: []int{400, 404}},
		{ID: "getMirrorProof", Method: http.MethodGet, Path: MirrorProofsRoute + "/:id",
			Access: operation.For(access.Viewer), Handler: m.show,
			Summary: "Show a proof with its results",
			Status:  http.StatusOK, Answer: site.Proof{}, Errors: []int{404}},
		{ID: "downloadMirrorProofList", Method: http.MethodGet, Path: MirrorProofsRoute + "/:id/list",
			Access: operation.For(access.Viewer), Handler: m.download,
			Summary:    "Download the list of images that a proof found missing",
			Parameters: []operation.Parameter{{Name: "format", Values: []string{"text", "imageset", "csv"}}},
			Status:     http.StatusOK, Answer: operation.File{}, Errors: []int{400, 404, 409}},
		{ID: "acceptMirrorGaps", Method: http.MethodPut, Path: clusterPath + "/mirror-gaps",
			Access: operation.For(access.Operator), Handler: m.accept,
			Summary: "Permit the installation of a cluster although images are missing, or revoke the permission",
			Body:    gapAcceptance{},
			Status:  http.StatusNoContent, Errors: []int{400, 404}},
	}
}

func (m mirrorProofs) list(c echo.Context) error {
	return answer(c, map[string][]site.Proof{"proofs": nonNil(m.proofs.Proofs())}, nil)
}

func (m mirrorProofs) start(c echo.Context) error {
	var wanted site.ProofRequest
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	if (wanted.Release == "") == (wanted.ClusterID == "") {
		return problem.BadRequest("Give either a release (version or pull spec) or a cluster_id.")
	}
	proof, err := m.proofs.Start(c.Request().Context(), wanted)
	return answerWith(c, http.StatusAccepted, proof, err)
}

func (m mirrorProofs) show(c echo.Context) error {
	proof, err := m.proofs.Proof(c.Param("id"))
	return answer(c, proof, err)
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
	var wanted gapAcceptance
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	return done(c, m.proofs.AcceptGaps(c.Request().Context(), c.Param("cluster_id"), wanted.Accept))
}
