terraform import muster_namespace.shop shop
