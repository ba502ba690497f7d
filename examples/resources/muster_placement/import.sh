terraform import muster_placement.europe default/europe
