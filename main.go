// Landfall installs OpenShift clusters at sites without access to the internet. See README.md.
package main

import (
	"embed"
	"io"
	"os"

	"google.golang.org/grpc/grpclog"

	"landfall/appliance/command"
)

//go:embed README.md config.example.yaml
var top embed.FS

func main() {
	// gRPC, by which the program talks to etcd, would write lost connections to the standard error.
	// The requests return these errors, too.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	os.Exit(command.Execute(os.Args[1:], top))
}
