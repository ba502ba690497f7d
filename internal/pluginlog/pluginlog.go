// Package pluginlog keeps a Terraform plugin from writing logs that nobody reads.
//
// A plugin writes all that its libraries log, down to traces, as JSON on its standard
// error, and Terraform reads all of it, to drop what the user has not asked for. Of
// a resource that does little, that is up to a third of the plugin's work, and as much
// again of Terraform's. Terraform shares its environment with its plugins, so a plugin
// can see whether anybody has asked.
//
// It imports nothing of muster.
package pluginlog

import (
	"os"
	"strings"
)

// The variables by which the libraries' logs, and the provider's own, are turned off.
const (
	librariesVariable = "TF_LOG_SDK"
	providerVariable  = "TF_LOG_PROVIDER"

	off = "OFF"
)

// QuietUnlessAsked turns the logs of this process off, unless a variable of
// Terraform's asks for logs. Call it before the plugin is served. A plugin that
// Terraform does not start, as under a debugger, has an environment of its own and
// should not call it.
func QuietUnlessAsked() {
	if asked(os.Environ()) {
		return
	}
	for _, variable := range []string{librariesVariable, providerVariable} {
		_ = os.Setenv(variable, off) // It fails for impossible names only.
	}
}

// asked reports whether an environment asks for logs of any kind. Where they go is no
// such question.
func asked(environ []string) bool {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case !strings.HasPrefix(name, "TF_LOG"), name == "TF_LOG_PATH", name == "TF_LOG_PATH_MASK":
		case value != "" && !strings.EqualFold(value, off):
			return true
		}
	}
	return false
}
