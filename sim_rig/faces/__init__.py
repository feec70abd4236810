"""Protocol faces: Modbus TCP, Modbus RTU, EZO, SCPI; they know no physics."""
