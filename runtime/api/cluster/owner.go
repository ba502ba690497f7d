package cluster

// TerraformOwnerAnnotation on an object of the hub marks the one Terraform
// resource that manages it, with a random text that only that resource's state
// knows. Two states with the same object differ by it. It is
// muster's own; hubs and agents ignore it.
const TerraformOwnerAnnotation = "muster-fleet.io/terraform-owner"
