package api

import (
	"net/http"

	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/web/operation"
)

// manifestOperations returns the operations on the additional manifests of a cluster.
func (s *Service) manifestOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "V2ListClusterManifests", Method: http.MethodGet, Path: clusterPath + "/manifests",
			Access: operation.For(access.Viewer), Handler: s.listManifests, FromCopy: true,
			Summary: "List the additional manifests of a cluster",
			Parameters: []operation.Parameter{
				{Name: "include_system_generated", Type: operation.Flag},
			},
			Status: 200, Answer: models.ListManifests{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "V2CreateClusterManifest", Method: http.MethodPost, Path: clusterPath + "/manifests",
			Access: operation.For(access.Operator), Handler: s.createManifest, DryRun: true,
			Summary: "Add a manifest",
			Body:    models.CreateManifestParams{},
			Status:  201, Answer: models.Manifest{}, Errors: []int{400, 401, 403, 404, 405, 409, 500}},
		{ID: "V2UpdateClusterManifest", Method: http.MethodPatch, Path: clusterPath + "/manifests",
			Access: operation.For(access.Operator), Handler: s.updateManifest, DryRun: true,
			Summary: "Change, rename or move a manifest",
			Body:    models.UpdateManifestParams{},
			Status:  200, Answer: models.Manifest{}, Errors: []int{400, 401, 403, 404, 405, 409, 500}},
		{ID: "V2DeleteClusterManifest", Method: http.MethodDelete, Path: clusterPath + "/manifests",
			Access: operation.For(access.Operator), Handler: s.deleteManifest, DryRun: true,
			Summary: "Delete a manifest",
			Parameters: []operation.Parameter{
				{Name: "folder", Values: []string{"manifests", "openshift"}},
				{Name: "file_name", Required: true},
			},
			Status: 200, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "v2DownloadClusterManifest", Method: http.MethodGet, Path: clusterPath + "/manifests/files",
			Access: operation.For(access.Administrator).WithSecret(), Handler: s.downloadManifest,
			Summary: "Download a manifest",
			Parameters: []operation.Parameter{
				{Name: "folder", Values: []string{"manifests", "openshift"}},
				{Name: "file_name", Required: true},
			},
			Status: 200, Answer: operation.File{}, Errors: []int{401, 403, 404, 405, 409, 500}},
	}
}

func (s *Service) listManifests(c echo.Context) error {
	manifests, err := s.Engine.Manifests(clusterID(c), flag(c, "include_system_generated"))
	return answer(c, http.StatusOK, manifests, err)
}

func (s *Service) createManifest(c echo.Context) error {
	params, err := decode[models.CreateManifestParams](c)
	if err != nil {
		return err
	}
	content, err := engine.ManifestContent(params.Content, s.ManifestBytes)
	if err != nil {
		return err
	}
	manifest, err := s.Engine.CreateManifest(c.Request().Context(), clusterID(c), engine.Manifest{
		Folder: conv.Value(params.Folder), Name: *params.FileName, Content: content,
	})
	return answer(c, http.StatusCreated, manifest, err)
}

func (s *Service) updateManifest(c echo.Context) error {
	params, err := decode[models.UpdateManifestParams](c)
	if err != nil {
		return err
	}
	var content []byte
	if params.UpdatedContent != nil {
		if content, err = engine.ManifestContent(params.UpdatedContent, s.ManifestBytes); err != nil {
			return err
		}
	}
	manifest, err := s.Engine.UpdateManifest(c.Request().Context(), clusterID(c), params, content)
	return answer(c, http.StatusOK, manifest, err)
}

// manifestOf returns the manifest that the query of a request names.
func manifestOf(c echo.Context) (engine.Manifest, error) {
	name, err := required(c, "file_name")
	if err != nil {
		return engine.Manifest{}, err
	}
	folder, err := oneOf(c, "folder", models.ManifestFolderManifests, models.ManifestFolderOpenshift)
	return engine.Manifest{Folder: folder, Name: name}, err
}

func (s *Service) deleteManifest(c echo.Context) error {
	manifest, err := manifestOf(c)
	if err != nil {
		return err
	}
	if err := s.Engine.DeleteManifest(c.Request().Context(), clusterID(c), manifest); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

func (s *Service) downloadManifest(c echo.Context) error {
	manifest, err := manifestOf(c)
	if err != nil {
		return err
	}
	if err := s.checkLink(c); err != nil {
		return err
	}
	file, info, err := s.Engine.OpenManifest(clusterID(c), manifest)
	if err != nil {
		return err
	}
	return send(c, manifest.Name, file, info)
}
